# shellcheck shell=bash
# A real etcd, kube-apiserver and kube-controller-manager, on loopback and in a temporary folder.
#
# They are isolated from other servers and users: etcd listens on a Unix socket in a folder of mode 0700, the API server
# on a free port, with a certificate and a token of this run.

work='' server='' cluster='' servers=()
# Loopback addresses, so that a webhook or an aggregated API on this machine can be behind a Service.
service_range=127.96.0.0/16

start_cluster() {
  local began=$SECONDS
  work=$(mktemp -d "${TMPDIR:-/tmp}/kubevirt-operator-e2e.XXXXXX")
  server=https://127.0.0.1:$(free_port)
  write_secrets
  start_etcd
  start_apiserver
  await "$server/readyz"
  write_kubeconfig
  if [ -n "$kube_controller_manager" ]; then
    start_controllers
    # The first object that the controllers create.
    await "$server/api/v1/namespaces/default/serviceaccounts/default"
  fi
  export KUBECONFIG=$work/kubeconfig
  export E2E_CONTROLLERS=false
  [ -z "$kube_controller_manager" ] || E2E_CONTROLLERS=true
  cluster=$("$kube_apiserver" --version)
  echo "cluster: $server, ready after $((SECONDS - began)) s, KUBECONFIG=$KUBECONFIG"
}

# SIGKILL, because their data is not needed.
stop_cluster() {
  if [ ${#servers[@]} -gt 0 ]; then
    kill -KILL "${servers[@]}" 2>/dev/null || true
    wait "${servers[@]}" 2>/dev/null || true
  fi
  [ -z "$work" ] || rm -rf "$work"
}

# Below the ephemeral ports of the kernel.
free_port() {
  local port
  while port=$((20000 + RANDOM % 12000)); do
    (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  done
  echo "$port"
}

write_secrets() {
  local token
  token=$(openssl rand -hex 16)
  echo "$token,e2e,e2e,system:masters" >"$work/tokens.csv"
  echo "Authorization: Bearer $token" >"$work/authorization"
  openssl genrsa -out "$work/service-account.key" 2048 2>/dev/null
}

# Runs a program in the background, in the temporary folder.
start() {
  local program=$1
  shift
  (cd "$work" && exec "$program" "$@") >"$work/${program##*/}.log" 2>&1 </dev/null &
  servers+=("$!")
}

# A relative socket, because etcd 3.4 accepts no absolute one: both sides run in the temporary folder.
start_etcd() {
  start "$etcd" \
    --data-dir=etcd \
    --unsafe-no-fsync \
    --listen-client-urls=unix://client:0 \
    --advertise-client-urls=unix://client:0 \
    --listen-peer-urls=unix://peer:0
}

# Flags that 1.20 and current releases share. There are no nodes, so no pod needs a token of its service account, and
# the API server is not an endpoint of a Service.
start_apiserver() {
  start "$kube_apiserver" \
    --etcd-servers=unix://client:0 \
    --bind-address=127.0.0.1 \
    --advertise-address=127.0.0.1 \
    --secure-port="${server##*:}" \
    --cert-dir=certs \
    --token-auth-file=tokens.csv \
    --authorization-mode=RBAC \
    --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file=service-account.key \
    --service-account-signing-key-file=service-account.key \
    --service-cluster-ip-range="$service_range" \
    --endpoint-reconciler-type=none \
    --disable-admission-plugins=ServiceAccount \
    --allow-privileged=true
}

# Only controllers that belong to the behaviour of an API server, and those of endpoints: none for workloads. The names are
# those of 1.20; later releases keep them as aliases.
start_controllers() {
  local insecure=()
  # 1.20 serves plain HTTP by default; later releases do not have the flag.
  if [[ $("$kube_controller_manager" --help) == *' --port int '* ]]; then
    insecure=(--port=0)
  fi
  start "$kube_controller_manager" \
    --kubeconfig=kubeconfig \
    --controllers=garbagecollector,namespace,resourcequota,serviceaccount,serviceaccount-token,clusterrole-aggregation,pvc-protection,pv-protection,endpoint,endpointslice,endpointslicemirroring \
    --service-account-private-key-file=service-account.key \
    --leader-elect=false \
    --kube-api-qps=200 \
    --kube-api-burst=400 \
    --secure-port=0 \
    "${insecure[@]}"
}

await() {
  local url=$1 deadline=$((SECONDS + 120))
  until curl --silent --fail --output /dev/null --max-time 5 --noproxy '*' \
    --cacert "$work/certs/apiserver.crt" --header "@$work/authorization" "$url"; do
    if report_dead_servers; then
      fail "the cluster did not start"
    elif [ "$SECONDS" -ge "$deadline" ]; then
      tail -n 20 "$work"/*.log >&2
      fail "no answer from $url within two minutes"
    fi
    sleep 0.1
  done
}

# Prints the log of a program that has stopped unexpectedly.
report_dead_servers() {
  local pid dead=1
  for pid in "${servers[@]}"; do
    kill -0 "$pid" 2>/dev/null || dead=0
  done
  [ "$dead" -ne 0 ] || tail -n 20 "$work"/*.log >&2
  return "$dead"
}

write_kubeconfig() {
  local token
  token=$(cut -d, -f1 "$work/tokens.csv")
  cat >"$work/kubeconfig" <<KUBECONFIG
apiVersion: v1
kind: Config
clusters:
- name: e2e
  cluster:
    server: $server
    certificate-authority-data: $(base64 <"$work/certs/apiserver.crt" | tr -d '\n')
users:
- name: e2e
  user:
    token: $token
contexts:
- name: e2e
  context:
    cluster: e2e
    user: e2e
    namespace: default
current-context: e2e
KUBECONFIG
  chmod 600 "$work/kubeconfig"
}
