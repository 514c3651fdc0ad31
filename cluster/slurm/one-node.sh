#!/bin/bash
# Trains in threads of one node. Before walltime the run writes a checkpoint and the job puts itself
# into the queue again, until the run is finished.
#SBATCH --job-name=sparsegp
#SBATCH --nodes=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=16G
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=sparsegp-%j.out

data=${DATA:-mine.npz}
run=${RUN:-run}

sparsegp train "$data" --out "$run" --resume --threads "$SLURM_CPUS_PER_TASK" "$@" &
driver=$!
trap 'kill -TERM $driver' TERM # five minutes (see --signal) before walltime

code=0
wait $driver || code=$?
if [ $code -gt 128 ]; then # the signal ended the wait, not the driver
    code=0
    wait $driver || code=$?
fi
if [ $code -eq 75 ] || [ $code -eq 143 ]; then # stopped, with a checkpoint or before there was one
    trap - TERM
    scontrol requeue "$SLURM_JOB_ID" && sleep 120 # SLURM ends this script; its own end would count
fi
exit $code
