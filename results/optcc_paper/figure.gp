# gnuplot -e "terminal='svg'; figure='servers'" results/optcc_paper/figure.gp, from the repository's root; see figure.sh.
folder = 'results/optcc_paper/'
small = figure eq 'small_messages'
height = small ? 1000 : 520
if (terminal eq 'png') { set terminal pngcairo size 1400,height font 'sans,11' } else { set terminal svg size 1400,height font 'sans,13' }
set output folder.figure.'.'.terminal
x = small ? 'bytes' : figure eq 'sizes' ? 'GiB' : figure eq 'nvlink' ? 'nvlink' : strstrt(figure, 'slowdown') > 0 ? 'l' : 'ranks'
rows(algorithm, panel) = sprintf("< awk -f %spoints.awk -v x=%s -v algorithm=%s %s %s%s.csv", folder, x, algorithm, panel, folder, figure)
set grid
set key top left
if (x eq 'ranks' || x eq 'bytes') { set logscale x 2 }
set xlabel x eq 'ranks' ? 'GPUs' : x eq 'GiB' ? 'message (GiB)' : x eq 'l' ? 'slowdown l' : x eq 'nvlink' ? 'NVLink of a GPU, each way (GB/s)' : 'message'
panels = "'-v slowdowns=0:8/7' '-v slowdowns=0:2'"
titles = "'l = 8/7' 'l = 2'"
if (figure eq 'two_servers') { panels = "'-v slowdowns=\"0:4/3;1:8/7\"' '-v slowdowns=\"0:2;1:4/3\"'"; titles = "'l = 4/3, 8/7' 'l = 2, 4/3'" }
if (figure eq 'slowdown' || figure eq 'two_slowdown' || figure eq 'nvlink') { panels = "'' "; titles = "'' " }
if (figure eq 'gpus_slowdown') { panels = "'-v per_server=4' '-v per_server=8'"; titles = "'4 GPUs a server' '8 GPUs a server'" }
if (small) {
  panels = "'-v ranks=16 -v slowdowns=0:8/7' '-v ranks=16 -v slowdowns=0:2' '-v ranks=64 -v slowdowns=0:8/7' '-v ranks=64 -v slowdowns=0:2'"
  titles = "'16 servers, l = 8/7' '16 servers, l = 2' '64 servers, l = 8/7' '64 servers, l = 2'"
  set logscale y 10
  set xtics ('1 KiB' 2**10, '16 KiB' 2**14, '256 KiB' 2**18, '4 MiB' 2**22, '64 MiB' 2**26, '1 GiB' 2**30)
  set ylabel 'time / lower bound'
  set key top right
  set multiplot layout 2,2 title 'AllReduce of small messages, one slow server, 100 GB/s NICs, 2 us'
  do for [i=1:words(panels)] {
    panel = word(panels, i)
    set title word(titles, i)
    plot rows('ring', panel) using 1:($2/$3) with linespoints pt 7 lc rgb '#c44e52' title 'ring', \
         rows('nccl_tree', panel) using 1:($2/$3) with linespoints pt 9 lc rgb '#8172b2' title 'double binary tree', \
         rows('recursive_halving_doubling', panel) using 1:($2/$3) with linespoints pt 11 lc rgb '#937860' title 'recursive halving-doubling', \
         rows('r2ccl', panel) using 1:($2/$3) with linespoints pt 13 lc rgb '#dd8452' title 'R2CCL', \
         rows('optcc', panel) using 1:($2/$3) with linespoints pt 5 lc rgb '#4c72b0' title 'OptCC', \
         rows('nested_rings', panel) using 1:($2/$3) with linespoints pt 6 lc rgb '#55a868' title 'nested rings', \
         rows('best', panel) using 1:($2/$3) with lines lw 3 dt 2 lc rgb 'black' title 'best'
  }
} else {
  set ylabel figure eq 'nvlink' ? 'time (ms)' : 'time / fault-free ring'
  heading = system(sprintf("sed -n 's/.*\"description\": \"\\(.*\\)\\.\",/\\1/p' scenarios/optcc_paper_%s.json", figure))
  set multiplot layout 1,words(panels) title heading noenhanced
  if (figure eq 'sizes') { set key center left }
  do for [i=1:words(panels)] {
    panel = word(panels, i)
    set title word(titles, i)
    if (figure eq 'nvlink') {
      set key top right
      plot rows('ring', panel) using 1:($2/1e3) with linespoints pt 7 lc rgb '#c44e52' title 'ring with the failure', \
           rows('optcc', panel) using 1:($2/1e3) with linespoints pt 5 lc rgb '#4c72b0' title 'OptCC', \
           rows('nested_rings', panel) using 1:($2/1e3) with linespoints pt 6 lc rgb '#55a868' title 'nested rings', \
           rows('optcc', panel) using 1:($3/1e3) with lines lw 2 dt 2 lc rgb 'black' title 'lower bound'
    } else {
      plot rows('ring', panel) using 1:($2/$4) with linespoints pt 7 lc rgb '#c44e52' title 'ring with the failure', \
           rows('iccl', panel) using 1:($2/$4) with linespoints pt 11 lc rgb '#937860' title 'ICCL', \
           rows('r2ccl', panel) using 1:($2/$4) with linespoints pt 13 lc rgb '#dd8452' title 'R2CCL', \
           rows('optcc', panel) using 1:($2/$4) with linespoints pt 5 lc rgb '#4c72b0' title 'OptCC', \
           rows('nested_rings', panel) using 1:($2/$4) with linespoints pt 6 lc rgb '#55a868' title 'nested rings', \
           rows('optcc', panel) using 1:($3/$4) with lines lw 2 dt 2 lc rgb 'black' title 'lower bound', \
           1 with lines lw 1 dt 3 lc rgb 'black' title 'fault-free ring'
    }
  }
}
unset multiplot
