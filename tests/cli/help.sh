# The list of commands and the help of single commands.
spectool --help
spectool help create
spectool verify --help | sed '/^ *--kernels/,/^ *--kv-type/{/^ *--k/!d;}' # the kernels of this machine
spectool run -h | head -5
spectool help nonsense
echo "exit $?"
for word in help --help -h; do spectool help $word | head -1; done
spectool --version --verbose | sed 's/ .*//'
# The list of commands fits a narrow terminal.
TERM=xterm terminal -c 60 spectool --help </dev/null | tr -d '\r' | awk 'length($0) > 60' 2>&1
spectool
