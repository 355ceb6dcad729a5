# What there is, and where to read more.
spectool --help
spectool help create
spectool verify --help | sed '/^ *--kernels/,/^ *--kv-type/{/^ *--k/!d;}' # the kernels of this machine
spectool run -h | head -5
spectool help nonsense
echo "exit $?"
spectool
