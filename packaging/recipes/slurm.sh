#!/bin/sh
# One model over two nodes: sbatch slurm.sh PACKED_FILE PROMPTS ANSWERS. The file has the same path on both.
#SBATCH --job-name=spectool
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=04:00:00
exec mpirun --map-by node --bind-to none spectool run --batch "$1" -o "$3" <"$2"
