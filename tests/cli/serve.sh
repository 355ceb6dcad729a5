# The start and end of the server. tests/serve/ tests its responses.
spectool create -f "$TESTDATA/tiny/Modelfile" 2>/dev/null
try() {
    spectool serve --port 0 "$@" # no other server may be in the way
    echo "exit $?: $*"
}
try
try packed.bin more
try packed.bin --port 65536
try packed.bin --keep-alive 5x
try packed.bin --max-queue 0
try packed.bin --name ''
try packed.bin --host 192.0.2.1 --port 11434
ln -s nothing link
try packed.bin --host ./link
try missing.bin
mkdir empty other
try empty
ln packed.bin other/packed.bin
try packed.bin other
ln packed.bin other/second.bin
try other --name both
try packed.bin --num-ctx 4096
try packed.bin --cache-dir packed.bin
try packed.bin --cache-dir missing/pages
# A damaged file of a folder is left out, one that is named is not.
mkdir damaged
head -c 4096 packed.bin >damaged/half.bin
cp -r "$TESTDATA/tiny/ar" damaged/checkpoint
: >damaged/weights.gguf
try damaged
try damaged/half.bin
# Options from the environment.
SPECTOOL_SERVE_MAX_QUEUE=0 try packed.bin
SPECTOOL_SERVE_NUM_CTX=4096 try packed.bin
SPECTOOL_SERVE_MAX_QUEUE=0 try packed.bin --max-queue 4 --num-ctx 4096
# Checkpoints are packed; wrong options are found before that.
export XDG_CACHE_HOME=$PWD/cache
mkdir -p hub/models--someone--Tiny-0.1/snapshots
ln -s "$TESTDATA/tiny/target" hub/models--someone--Tiny-0.1/snapshots/main
ln -s "$TESTDATA/tiny/target" Folder-0.1
try someone/Tiny-0.1 packed.bin --name both
[ ! -e cache ] && echo 'nothing is packed'
try someone/other
spectool serve someone/Tiny-0.1 Folder-0.1/ packed.bin --port 0 2>several &
for _ in $(seq 600); do
    grep -q http several 2>/dev/null && break
    sleep 0.05
done
port=$(sed -n 's/.*http:.*:\([0-9]*\)$/\1/p' several)
curl -s "localhost:$port/v1/models" | grep -o '"id": *"[^"]*"'
curl -s "localhost:$port/v1/completions" -d '{"model": "someone/Tiny-0.1", "prompt": "a", "max_tokens": 1}' | grep -o '"model": *"[^"]*"'
kill -TERM $!
wait $!
export XDG_CACHE_HOME=/dev/null
# A port belongs to one server, and a signal ends it cleanly. Notes are printed first.
for origins in 'http://*.example' http://a.example/ 'http://a.example, http://b.example' a.example "http://a
X: y" ''; do spectool serve packed.bin --port 0 --cors "$origins"; done
spectool serve packed.bin --port 0 --no-draft --draft-depth 4 --accept coupled 2>first &
for _ in $(seq 600); do
    grep -q http first 2>/dev/null && break
    sleep 0.05
done
port=$(sed -n 's/.*http:.*:\([0-9]*\)$/\1/p' first)
try packed.bin --port "$port" 2>&1 | sed "s/$port/PORT/g"
kill -TERM $!
wait $!
echo "exit $?"
sed "s/:$port/:PORT/" first
# A closed standard stream stays closed: no connection receives its descriptor, and thereby the log.
spectool serve packed.bin --port 0 <&- >&- 2>&- &
for _ in $(seq 600); do
    ls -l /proc/$!/fd 2>/dev/null | grep -q socket && break
    sleep 0.05
done
for fd in 0 1 2; do readlink /proc/$!/fd/$fd; done
kill -KILL $!
wait $! 2>/dev/null || :
# On a terminal an example follows, which does not show the key.
SPECTOOL_API_KEY=hidden TERM=xterm terminal spectool serve packed.bin --port 0 <<'END' >log
@await sky
@kill TERM
END
tr -d '\r' <log | sed -n 's/1:[0-9]*/1:PORT/; /curl/,/sky/p; /hidden/p'
