# shellcheck shell=bash
# Finds etcd, kube-apiserver and kube-controller-manager, in this order:
#
#   1. KUBEBUILDER_ASSETS
#   2. PATH
#   3. the official envtest archive, if the network allows
#   4. Debian 12's source package, built here
#
# The results of 3 and 4 are kept in a cache folder outside of the clone. kube-controller-manager is optional: without it
# there is no garbage collection, and deleted namespaces are not emptied.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/kubevirt-operator/e2e
etcd='' kube_apiserver='' kube_controller_manager=''

find_binaries() {
  local origin
  if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
    take_from "$KUBEBUILDER_ASSETS" ||
      fail "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS has no etcd and kube-apiserver"
    origin="KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS"
  elif take_from_path; then
    origin=PATH
  elif make_once envtest-v1.36.2 "$root/e2e/lib/envtest"; then
    origin="the envtest archive, kept in $cache"
  elif make_once kubernetes-1.20.2 "$root/e2e/lib/debian"; then
    origin="Debian's source package, kept in $cache"
  else
    fail "no kube-apiserver: put etcd and kube-apiserver on PATH or into KUBEBUILDER_ASSETS," \
      "or point KUBECONFIG_E2E at a cluster"
  fi
  print_binaries "$origin"
}

take_from() {
  local folder
  folder=$(cd "$1" 2>/dev/null && pwd) || return 1
  [ -x "$folder/etcd" ] && [ -x "$folder/kube-apiserver" ] || return 1
  etcd=$folder/etcd
  kube_apiserver=$folder/kube-apiserver
  if [ -x "$folder/kube-controller-manager" ]; then
    kube_controller_manager=$folder/kube-controller-manager
  fi
}

take_from_path() {
  etcd=$(type -P etcd) && kube_apiserver=$(type -P kube-apiserver) || return 1
  kube_controller_manager=$(type -P kube-controller-manager || true)
}

# Uses the programs in a folder of the cache, which a recipe creates if it is missing. A recipe creates the folder
# completely or not at all, and runs of several clones wait for one another.
make_once() {
  local folder=$cache/$1 recipe=$2 lock status=0
  mkdir -p "$cache"
  exec {lock}>"$folder.lock"
  flock --nonblock "$lock" || { echo "waiting for another run that creates $folder"; flock "$lock"; }
  [ -d "$folder" ] || "$recipe" "$folder" || status=$?
  exec {lock}>&-
  [ "$status" -eq 0 ] && take_from "$folder"
}

print_binaries() {
  echo "programs: from $1"
  echo "  $("$kube_apiserver" --version)"
  echo "  $("$etcd" --version | head -n1)"
  if [ -n "$kube_controller_manager" ]; then
    echo "  kube-controller-manager too: garbage collection and namespace deletion are real"
  else
    echo "  no kube-controller-manager: no garbage collection, deleted namespaces stay"
  fi
}
