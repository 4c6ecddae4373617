# gnuplot -e "terminal='svg'; machine='dgx1v'" results/blink_dgx1.gp, from the repository's root.
name = 'blink_'.machine.'_all'
if (terminal eq 'png') { set terminal pngcairo size 1500,900 font 'sans,11' } else { set terminal svg size 1500,900 font 'sans,13' }
set output 'results/'.name.'.'.terminal
# The rows of an allocation stand together: for each PCIe bandwidth (8, then 15.75 GB/s) and collective (broadcast, allreduce) Blink
# and then NCCL's ring (columns: 2 collective, 3 algorithm, 12 time). Their GPUs are those of the scenario, in its order.
gains(collective, pcie) = sprintf("< bash -c 'paste <(sed -n \"/ranks.gpus/,/ \\],/p\" scenarios/%s.json | grep -o \"\\[[0-7, ]*\\]\" | tr -d \"[], \") <(awk -F, \"NR > 1 { point = int((NR - 2) / 2); if (point %% 4 == %d && NR %% 2 == 0) blink = \\$12; if (point %% 4 == %d && NR %% 2 == 1) print \\$12 / blink }\" results/%s.csv)'", name, 2*pcie + collective, 2*pcie + collective, name)
set style data histograms
set style fill solid 0.9
set boxwidth 0.9
set grid ytics
set ylabel 'speed-up over NCCL''s rings'
set xtics rotate by 90 right font ',9'
set key top right
set multiplot layout 2,1 title (machine eq 'dgx1v' ? 'DGX-1V' : 'DGX-1P').': Blink over NCCL''s rings, 1 GiB, all allocations of GPUs (simulated)'
do for [c=0:1] {
  unset logscale y
  set yrange [*:*]
  stats gains(c, 0) using (log($2)) nooutput name 'A'
  stats gains(c, 1) using (log($2)) nooutput name 'B'
  set logscale y 2
  set yrange [0.5:16]
  set title (c == 0 ? 'broadcast' : 'AllReduce')
  plot gains(c, 0) using 2:xtic(1) lc rgb '#4c72b0' title sprintf('PCIe ring at 8 GB/s: up to %.2f, geometric mean %.2f', exp(A_max), exp(A_mean)), \
       gains(c, 1) using 2 lc rgb '#c9b458' title sprintf('PCIe ring at 15.75 GB/s: up to %.2f, geometric mean %.2f', exp(B_max), exp(B_mean)), \
       1 with lines lw 1 dt 3 lc rgb 'black' notitle
}
unset multiplot
