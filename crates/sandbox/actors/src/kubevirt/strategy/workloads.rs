//! Deployments and DaemonSets of a strategy.

use serde_json::{Value, json};

use super::release::Release;

/// Properties in which the components differ.
struct Component {
    name: &'static str,
    image: &'static str,
    account: &'static str,
    container: &'static str,
    /// Ports besides `metrics`.
    ports: &'static [(&'static str, u16)],
    certificates: &'static [(&'static str, &'static str)],
    probe: &'static str,
    memory: &'static str,
}

const API: Component = Component {
    name: "virt-api",
    image: "virtApiImage",
    account: "kubevirt-apiserver",
    container: "virt-api",
    // Equal to the metrics port, as in real strategies.
    ports: &[("virt-api", 8443)],
    certificates: &[
        ("/etc/virt-api/certificates", "kubevirt-virt-api-certs"),
        (
            "/etc/virt-handler/clientcertificates",
            "kubevirt-virt-handler-certs",
        ),
    ],
    probe: "/apis/subresources.kubevirt.io/v1/healthz",
    memory: "500Mi",
};

const CONTROLLER: Component = Component {
    name: "virt-controller",
    image: "virtControllerImage",
    account: "kubevirt-controller",
    container: "virt-controller",
    ports: &[],
    certificates: &[
        (
            "/etc/virt-controller/certificates",
            "kubevirt-controller-certs",
        ),
        ("/etc/virt-controller/exportca", "kubevirt-export-ca"),
        ("/etc/virt-controller/backupca", "kubevirt-backup-ca"),
    ],
    probe: "/leader",
    memory: "275Mi",
};

const EXPORT_PROXY: Component = Component {
    name: "virt-exportproxy",
    image: "virtExportProxyImage",
    account: "kubevirt-exportproxy",
    container: "exportproxy",
    ports: &[("exportproxy", 8443)],
    certificates: &[(
        "/etc/virt-exportproxy/certificates",
        "kubevirt-exportproxy-certs",
    )],
    probe: "/healthz",
    memory: "150Mi",
};

const SYNCHRONIZATION: Component = Component {
    name: "virt-synchronization-controller",
    image: "virtSynchronizationControllerImage",
    account: "kubevirt-synchronization-controller",
    container: "sync",
    ports: &[("sync", 9185)],
    certificates: &[
        (
            "/etc/virt-sync-controller/clientcertificates",
            "kubevirt-synchronization-controller-certs",
        ),
        (
            "/etc/virt-sync-controller/servercertificates",
            "kubevirt-synchronization-controller-server-certs",
        ),
    ],
    probe: "/healthz",
    memory: "150Mi",
};

const HANDLER: Component = Component {
    name: "virt-handler",
    image: "virtHandlerImage",
    account: "kubevirt-handler",
    container: "virt-handler",
    ports: &[("vmstats", 8187)],
    certificates: &[
        (
            "/etc/virt-handler/clientcertificates",
            "kubevirt-virt-handler-certs",
        ),
        (
            "/etc/virt-handler/servercertificates",
            "kubevirt-virt-handler-server-certs",
        ),
        (
            "/etc/virt-handler/migrationservercertificates",
            "kubevirt-virt-handler-migration-client-certs",
        ),
        (
            "/etc/virt-handler/vsockclientcertificates",
            "kubevirt-virt-handler-vsock-client-certs",
        ),
    ],
    probe: "/healthz",
    memory: "325Mi",
};

pub(super) fn objects(release: &Release<'_>) -> Vec<Value> {
    let mut controller = deployment(release, &CONTROLLER);
    controller["spec"]["template"]["spec"]["containers"][0]["args"] = json!([
        "--launcher-image",
        release.image("virt-launcher", "virtLauncherImage"),
        "--exporter-image",
        release.image("virt-exportserver", "virtExportServerImage"),
        "--port",
        "8443",
        "-v",
        "2",
    ]);
    vec![
        deployment(release, &API),
        controller,
        deployment(release, &EXPORT_PROXY),
        deployment(release, &SYNCHRONIZATION),
        daemon_set(release),
    ]
}

fn deployment(release: &Release<'_>, component: &Component) -> Value {
    let labels = labels(release, component);
    let mut spec = pod_spec(release, component);
    spec["securityContext"] =
        json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    spec["affinity"] = json!({"podAntiAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 1,
            "podAffinityTerm": {
                "labelSelector": {"matchExpressions": [
                    {"key": "kubevirt.io", "operator": "In", "values": [component.name]},
                ]},
                "topologyKey": "kubernetes.io/hostname",
            },
        }],
    }});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": component.name, "namespace": release.namespace, "labels": labels},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"kubevirt.io": component.name}},
            "strategy": {},
            "template": template(release, component, &spec),
        },
    })
}

fn daemon_set(release: &Release<'_>) -> Value {
    let mut labels = labels(release, &HANDLER);
    labels["kubevirt.io/supports-migration-cn-types"] = "true".into();
    let mut spec = pod_spec(release, &HANDLER);
    let container = &mut spec["containers"][0];
    container["securityContext"] = json!({"privileged": true});
    container["args"] = json!([
        "--port",
        "8443",
        "--hostname-override",
        "$(NODE_NAME)",
        "-v",
        "2"
    ]);
    let node = json!({"fieldRef": {"fieldPath": "spec.nodeName"}});
    let mut env = vec![json!({"name": "NODE_NAME", "valueFrom": node})];
    env.extend(release.passed_through());
    container["env"] = env.into();
    spec["hostPID"] = true.into();
    spec["initContainers"] = json!([{
        "name": "virt-launcher",
        "image": release.image("virt-launcher", "virtLauncherImage"),
        "command": ["/bin/sh", "-c"],
        "args": ["node-labeller.sh"],
        "securityContext": {"privileged": true},
    }]);
    json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": HANDLER.name, "namespace": release.namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"kubevirt.io": HANDLER.name}},
            "template": template(release, &HANDLER, &spec),
            "updateStrategy": {"type": "RollingUpdate"},
        },
    })
}

fn labels(release: &Release<'_>, component: &Component) -> Value {
    json!({
        "app.kubernetes.io/version": version(release),
        "kubevirt.io": component.name,
    })
}

fn version<'a>(release: &Release<'a>) -> &'a str {
    match release.property("productVersion") {
        None | Some("") => release.version,
        Some(version) => version,
    }
}

fn template(release: &Release<'_>, component: &Component, spec: &Value) -> Value {
    let mut labels = labels(release, component);
    labels["np.kubevirt.io/allow-access-cluster-services"] = "true".into();
    labels["prometheus.kubevirt.io"] = "true".into();
    json!({"metadata": {"name": component.name, "labels": labels}, "spec": spec})
}

fn pod_spec(release: &Release<'_>, component: &Component) -> Value {
    let certificates = component.certificates.iter();
    let mounts: Vec<Value> = certificates
        .clone()
        .map(|(path, name)| json!({"name": name, "mountPath": path, "readOnly": true}))
        .collect();
    let volumes: Vec<Value> = certificates
        .map(|(_, name)| json!({"name": name, "secret": {"secretName": name, "optional": true}}))
        .collect();
    let ports: Vec<Value> = component
        .ports
        .iter()
        .chain(&[("metrics", 8443)])
        .map(|(name, port)| json!({"name": name, "containerPort": port, "protocol": "TCP"}))
        .collect();
    let mut container = json!({
        "name": component.container,
        "image": release.image(component.name, component.image),
        "imagePullPolicy": release.pull_policy(),
        "command": [component.name],
        "args": ["--port", "8443", "-v", "2"],
        "ports": ports,
        "readinessProbe": {
            "httpGet": {"path": component.probe, "port": 8443, "scheme": "HTTPS"},
            "initialDelaySeconds": 15,
            "periodSeconds": 10,
        },
        "resources": {"requests": {"cpu": "10m", "memory": component.memory}},
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": mounts,
    });
    let env = release.passed_through();
    if !env.is_empty() {
        container["env"] = env.into();
    }
    let mut spec = json!({
        "containers": [container],
        "priorityClassName": "kubevirt-cluster-critical",
        "serviceAccountName": component.account,
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
        "volumes": volumes,
    });
    if let Some(secrets) = release.pull_secrets() {
        spec["imagePullSecrets"] = secrets;
    }
    spec
}
