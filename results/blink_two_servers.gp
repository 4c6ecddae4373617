# gnuplot -e "terminal='svg'" results/blink_two_servers.gp, from the repository's root.
csv = 'results/blink_two_servers.csv'
if (terminal eq 'png') { set terminal pngcairo size 1300,550 font 'sans,11' } else { set terminal svg size 1300,550 font 'sans,13' }
set output 'results/blink_two_servers.'.terminal
# Columns: 3 algorithm, 4 ranks, 12 time, 13 algbw, 15 bound. Rows of one algorithm and number of ranks are in the order of
# the NICs.
pick(algorithm, ranks) = sprintf("< awk -F, 'BEGIN { split(\"40 100 200 400\", nic, \" \") } $3==\"%s\" && $4==%d && $22==\"ok\" { print nic[++n] \",\" $13 \",\" $7 / $15 / 1000 }' %s", algorithm, ranks, csv)
set datafile separator ','
set logscale x 2
set xtics (40, 100, 200, 400)
set grid
set key top left
set xlabel 'NIC (Gb/s), 4 a server'
set ylabel 'message / time (GB/s)'
set yrange [0:*]
set multiplot layout 1,2 title 'AllReduce of 1 GiB over two DGX-1V (simulated)'
do for [ranks in "8 16"] {
  set title (ranks eq '8' ? '3 + 5 GPUs' : '8 + 8 GPUs')
  plot pick('blink', ranks+0) using 1:2 with linespoints lw 2 pt 5 lc rgb '#4c72b0' title 'Blink, three phases', \
       pick('nccl_ring', ranks+0) using 1:2 with linespoints lw 2 pt 7 lc rgb '#c44e52' title 'NCCL rings', \
       pick('nccl_tree', ranks+0) using 1:2 with linespoints lw 2 pt 9 lc rgb '#55a868' title 'NCCL double binary trees', \
       pick('blink', ranks+0) using 1:3 with lines lw 2 dt 2 lc rgb 'black' title 'lower bound'
}
unset multiplot
