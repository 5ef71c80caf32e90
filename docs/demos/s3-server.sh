# A server of S3 for the scripts that source this file. Needs versitygw or moto_server.

# start_far BUCKET: a server with that bucket, which knows no other clients than this script and its programs. $far is its
# process, $far_name its name, and $port its port; versitygw keeps the bucket in the folder far.
start_far() {
  port=$((20000 + RANDOM % 20000))
  export AWS_ALLOW_HTTP=true AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=k AWS_SECRET_ACCESS_KEY=secretsecret
  if command -v versitygw >/dev/null; then
    far_name=versitygw
    mkdir -p "far/$1"
    ROOT_ACCESS_KEY=k ROOT_SECRET_KEY=secretsecret versitygw --port "127.0.0.1:$port" posix far >/dev/null 2>&1 &
  else
    far_name=moto
    moto_server -H 127.0.0.1 -p "$port" >/dev/null 2>&1 &
  fi
  far=$!
  processes+=("$far")
  curl --silent --retry 60 --retry-delay 1 --retry-connrefused -X PUT "http://127.0.0.1:$port/$1" >/dev/null
  export AWS_ENDPOINT=http://127.0.0.1:$port
}

# start_line RATE: a line of so many bytes a second to that server, which programs use from then on. $plain is the example
# `plain` of forebay-bucket.
start_line() {
  local line
  rm -f line.port
  mkfifo line.port
  "$plain" proxy "$port" "$1" >line.port &
  processes+=("$!")
  read -r line <line.port
  export AWS_ENDPOINT=http://127.0.0.1:$line
}
