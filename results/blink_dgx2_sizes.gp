# gnuplot -e "terminal='svg'" results/blink_dgx2_sizes.gp, from the repository's root.
csv = 'results/blink_dgx2_sizes.csv'
if (terminal eq 'png') { set terminal pngcairo size 1300,550 font 'sans,11' } else { set terminal svg size 1300,550 font 'sans,13' }
set output 'results/blink_dgx2_sizes.'.terminal
# Columns: 3 algorithm, 7 bytes, 12 time, 13 algbw.
pick(algorithm) = sprintf("< awk -F, '$3==\"%s\" && $22==\"ok\"' %s", algorithm, csv)
set datafile separator ','
set logscale x 2
set xrange [900:1.3e9]
set xtics ('1 KiB' 2**10, '16 KiB' 2**14, '256 KiB' 2**18, '4 MiB' 2**22, '64 MiB' 2**26, '1 GiB' 2**30)
set grid
set key top left
set xlabel 'message'
set multiplot layout 1,2 title 'AllReduce on a DGX-2, 16 GPUs (simulated)'
set logscale y 10
set ylabel 'time (us)'
plot pick('blink') using 7:12 with linespoints lw 2 pt 5 lc rgb '#4c72b0' title 'Blink, one-hop trees', \
     pick('nccl_ring') using 7:12 with linespoints lw 2 pt 7 lc rgb '#c44e52' title 'ring', \
     pick('nccl_tree') using 7:12 with linespoints lw 2 pt 9 lc rgb '#55a868' title 'double binary tree'
unset logscale y
set yrange [0:90]
set key bottom right
set ylabel 'message / time (GB/s)'
plot pick('blink') using 7:13 with linespoints lw 2 pt 5 lc rgb '#4c72b0' title 'Blink, one-hop trees', \
     pick('nccl_ring') using 7:13 with linespoints lw 2 pt 7 lc rgb '#c44e52' title 'ring', \
     pick('nccl_tree') using 7:13 with linespoints lw 2 pt 9 lc rgb '#55a868' title 'double binary tree', \
     80 with lines lw 1 dt 3 lc rgb 'black' title '16 x 150 GB/s / 30'
unset multiplot
