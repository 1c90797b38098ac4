M=acme/a
for m in $M b/c; do hf download "$m" --revision=$(git rev-parse HEAD); done <<EOF
x
EOF
