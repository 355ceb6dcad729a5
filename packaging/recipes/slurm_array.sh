#!/bin/sh
# Parts of a batch on as many nodes as are free: sbatch slurm_array.sh PACKED_FILE PROMPTS ANSWERS. Each part writes a
# file, ANSWERS.001 and so on; "cat ANSWERS.*" has the lines of the whole. The job may be submitted again: parts that are
# complete are kept, others continue.
#SBATCH --job-name=spectool
#SBATCH --array=1-8
#SBATCH --exclusive
#SBATCH --time=04:00:00
part=$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT
exec spectool run --batch --part "$part" "$1" -o "$3.$(printf %03d "$SLURM_ARRAY_TASK_ID")" <"$2"
