#!/bin/bash
# Runs driver, scheduler and workers inside one allocation, on as many nodes as it has. Before walltime
# the run writes a checkpoint and the job puts itself into the queue again, until the run is finished.
#SBATCH --job-name=sparsegp
#SBATCH --ntasks=17
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=sparsegp-%j.out

data=${DATA:-mine.npz}
run=${RUN:-run}

# One task is left for scheduler and driver. What they share lies where all nodes see it.
workers=$((SLURM_NTASKS - 1))
shared=$PWD/sparsegp-job-$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0}
mkdir -m 700 "$shared" && cd "$shared" || exit 1
clean() {
    # shellcheck disable=SC2046 # numbers
    kill $(jobs -p) 2> /dev/null
    wait
    rm -rf "$shared"
}
trap clean EXIT
export DASK_LOGGING__DISTRIBUTED=error
mkdir tls && (
    cd tls && umask 077 && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 \
        -subj /CN=sparsegp -addext keyUsage=critical,digitalSignature,keyCertSign \
        -keyout key.pem -out cert.pem 2> /dev/null && cp cert.pem ca.pem
) || exit 1
tls="--tls-ca-file $shared/tls/ca.pem --tls-cert $shared/tls/cert.pem --tls-key $shared/tls/key.pem"
common="--scheduler-file $shared/scheduler.json --protocol tls --dashboard-address 127.0.0.1:0 $tls"

# shellcheck disable=SC2086 # options are words
dask scheduler --port 0 $common &
# shellcheck disable=SC2086
srun --ntasks=$workers dask worker $common --nthreads 1 --memory-limit 0 --death-timeout 120 &
for _ in $(seq 120); do [ -s scheduler.json ] || sleep 1; done

cat > cluster.yaml << END
scheduler_file: scheduler.json
tls: tls
workers: $workers
seconds: 600
END
cd "$OLDPWD" || exit 1
sparsegp train "$data" --out "$run" --resume --cluster "$shared/cluster.yaml" "$@" &
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
    clean
    scontrol requeue "$SLURM_JOB_ID" && sleep 120 # SLURM ends this script; its own end would count
fi
exit $code
