#!/bin/sh
# Write the secrets of compose.yaml into the folder secrets beside this file; what is there is kept.
# For a certificate of your own, put certificate and key, one after the other, into secrets/proxy_certificate.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
# Only their owner enters the folder. The files are open to all, because each container has a user of its own.
put() { cat > "secrets/$1.new" && [ -s "secrets/$1.new" ] && chmod 444 "secrets/$1.new" && mv -f "secrets/$1.new" "secrets/$1"; }
missing() { [ ! -e "secrets/$1" ]; }
if missing replicas_secret; then openssl rand -hex 32 | put replicas_secret; fi
if missing postgres_password; then openssl rand -hex 24 | put postgres_password; fi
if missing run_store; then
    printf 'postgresql://skillserve:%s@postgres/skillserve\n' "$(cat secrets/postgres_password)" | put run_store
fi
if missing proxy_certificate; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 90 -subj /CN=localhost \
        -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout secrets/key.new -out secrets/crt.new 2>/dev/null
    cat secrets/crt.new secrets/key.new | put proxy_certificate
    rm secrets/crt.new secrets/key.new
fi
