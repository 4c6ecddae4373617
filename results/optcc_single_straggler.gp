# gnuplot -e "terminal='svg'" results/optcc_single_straggler.gp, from the repository's root.
csv = 'results/optcc_single_straggler.csv'
if (terminal eq 'png') { set terminal pngcairo size 1500,900 font 'sans,11' } else { set terminal svg size 1500,900 font 'sans,13' }
set output 'results/optcc_single_straggler.'.terminal
# Columns: 3 algorithm, 4 ranks, 7 bytes, 9 slowdowns, 12 time, 15 bound, 18 fault-free ring.
pick(algorithm, bytes, l) = sprintf("< awk -F, '$3==\"%s\" && $7==%s && $9==\"0:%s\" && $22==\"ok\"' %s", algorithm, bytes, l, csv)
set datafile separator ','
set logscale x 2
set xtics (16, 32, 64, 128, 256, 512)
set xrange [14:590]
set grid ytics
set xlabel 'servers (one rank each)'
set ylabel 'time / fault-free ring'
set key top right
set multiplot layout 2,3 title 'AllReduce with one straggler, 100 GB/s NICs, 2 us, OptCC with the best number of segments'
do for [l in "8/7 2"] {
  if (l eq "2") { set yrange [0.8:2.6] } else { set yrange [0.9:1.4] }
  do for [size in "67108864:64 1073741824:1024 17179869184:16384"] {
    bytes = size[1:strstrt(size, ':')-1]
    name = size[strstrt(size, ':')+1:*]
    set title sprintf('%s MiB, l = %s', name, l) noenhanced
    plot pick('ring', bytes, l) using 4:($12/$18) with linespoints lw 2 pt 7 lc rgb '#c44e52' title 'ring with the failure', \
         pick('optcc', bytes, l) using 4:($12/$18) with linespoints lw 2 pt 5 lc rgb '#4c72b0' title 'OptCC', \
         pick('optcc', bytes, l) using 4:($15/$18) with lines lw 2 dt 2 lc rgb '#55a868' title 'lower bound', \
         1 with lines lw 1 dt 3 lc rgb 'black' title 'fault-free ring'
  }
}
unset multiplot
