#!/bin/sh
# Makes a certificate for scheduler, workers and driver of a cluster: DIR/ca.pem, cert.pem, key.pem.
# Good for a year. It signs itself, as nobody else has a say in who may join; whoever can read key.pem may.
set -eu
umask 077
mkdir -p "$1" && cd "$1"
[ ! -e key.pem ] || { echo "$1/key.pem is there already; name another folder" >&2; exit 1; }
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -subj /CN=sparsegp \
    -addext keyUsage=critical,digitalSignature,keyCertSign -keyout key.pem -out cert.pem 2> openssl.log ||
    { cat openssl.log >&2; exit 1; }
cp cert.pem ca.pem
rm openssl.log
