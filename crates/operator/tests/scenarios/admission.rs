//! What is let in, refused and warned of when it is written.

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use crate::{
    ground::{ACCOUNT, tell_in_sandbox},
    kinds,
    story::{Story, condition},
};

const BECAUSE: &str = "the API server has no way to the operator inside of the test";

/// What the API server answers to a person.
struct Answer {
    code: u16,
    message: String,
    warnings: Vec<String>,
}

impl Answer {
    async fn of(response: Response<Body>) -> Self {
        let warnings = response.headers().get_all("warning").iter();
        let warnings = warnings
            .map(|warning| {
                let text = warning.to_str().unwrap();
                let text = text.strip_prefix("299 - \"").unwrap();
                text.strip_suffix('"').unwrap().replace("\\\"", "\"")
            })
            .collect();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body: Value = serde_json::from_slice(&body).unwrap();
        Self {
            code,
            message: body["message"].as_str().unwrap_or_default().to_owned(),
            warnings,
        }
    }

    /// That it was taken, with nothing said.
    #[track_caller]
    fn is_silent(&self) {
        assert!(self.code < 300, "{}: {}", self.code, self.message);
        assert!(self.warnings.is_empty(), "{:?}", self.warnings);
    }

    /// That it was taken, and these words were said.
    #[track_caller]
    fn warns(&self, words: &[&str]) {
        assert!(self.code < 300, "{}: {}", self.code, self.message);
        let said = self.warnings.join("\n");
        for words in words {
            assert!(said.contains(words), "{words:?} is not in {said:?}");
        }
    }

    /// That it was refused with these words.
    #[track_caller]
    fn refuses(&self, words: &[&str]) {
        self.refuses_with(422, words);
    }

    /// That it was refused with this code and these words.
    #[track_caller]
    fn refuses_with(&self, code: u16, words: &[&str]) {
        assert_eq!(self.code, code, "{}", self.message);
        for words in words {
            let said = &self.message;
            assert!(said.contains(words), "{words:?} is not in {said:?}");
        }
    }
}

impl Story {
    async fn send(
        &self,
        method: Method,
        kind: &str,
        name: &str,
        (media, body): (&str, &Value),
    ) -> Answer {
        let resource = kinds::resource(kind);
        let plural = &resource.plural;
        let namespace = if kinds::is_of_the_cluster(kind) {
            String::new()
        } else {
            format!("/namespaces/{}", self.namespace)
        };
        let root = match resource.group.as_str() {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/{}", resource.version),
        };
        let name = match name {
            query if query.is_empty() || query.starts_with('?') => query.to_owned(),
            name => format!("/{name}"),
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{root}{namespace}/{plural}{name}"))
            .header("content-type", media)
            .body(Body::from(body.to_string().into_bytes()))
            .unwrap();
        Answer::of(self.client.send(request).await.unwrap()).await
    }

    /// Creates an object, and tells what is said.
    async fn try_create(&self, kind: &str, name: &str, spec: Value) -> Answer {
        let resource = kinds::resource(kind);
        let object = json!({
            "apiVersion": resource.api_version, "kind": kind,
            "metadata": { "name": name }, "spec": spec,
        });
        let json = "application/json";
        self.send(Method::POST, kind, "", (json, &object)).await
    }

    /// Changes an object, and tells what is said.
    async fn try_patch(&self, kind: &str, name: &str, patch: Value) -> Answer {
        let merge = "application/merge-patch+json";
        self.send(Method::PATCH, kind, name, (merge, &patch)).await
    }

    /// Deletes an object, and tells what is said.
    async fn try_delete(&self, kind: &str, name: &str) -> Answer {
        let json = "application/json";
        self.send(Method::DELETE, kind, name, (json, &json!({})))
            .await
    }

    /// That the webhook has come to a verdict so many times.
    #[track_caller]
    fn counts(&self, resource: &str, verdict: &str, count: usize) {
        let text = self.metrics.expose();
        let line = format!(
            "kubevirt_operator_admission_requests_total{{resource=\"{resource}\",verdict=\"{verdict}\"}} {count}\n"
        );
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }

    /// Has nobody answer for the webhook any more.
    fn forget_webhook(&self) {
        let server = self.server();
        server.forget_service(ACCOUNT.0, "kubevirt-operator-webhook");
    }

    /// Has the operator start again, and answer.
    async fn restart_operator(&mut self) {
        self.stop_operator().await;
        self.start_operator();
        self.wait(1).await;
    }

    async fn network(&self, name: &str) {
        let network = json!({ "metadata": { "name": name }, "spec": { "bridge": "br0" } });
        self.create("NetworkConfiguration", network).await;
    }
}

/// User data from a Secret that only the operator may have.
fn ours() -> Value {
    json!({ "secretRef": { "name": "web-cloud-init" } })
}

fn on(network: &str, mac: &str) -> Value {
    json!([{ "name": "lan", "networkName": network, "macAddress": mac }])
}

#[test]
fn a_machine_that_is_fine_is_taken_and_runs_and_nothing_but_its_spec_is_asked_about() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        story
            .try_create("Machine", "web", json!({}))
            .await
            .is_silent();
        story.until_phase("web", "Running").await;
        let machine = story.get("Machine", "web").await;
        let finalizers = &machine["metadata"]["finalizers"];
        assert_eq!(finalizers[0], "machine.vitistack.io/cleanup");
        let labelled = json!({ "metadata": { "labels": { "team": "a" } } });
        story
            .try_patch("Machine", "web", labelled)
            .await
            .is_silent();
        story.counts("machines", "allowed", 1);
        let stopped = json!({ "spec": { "powerState": "Stopped" } });
        story.try_patch("Machine", "web", stopped).await.is_silent();
        story.counts("machines", "allowed", 2);
        story.try_delete("Machine", "web").await.is_silent();
        story.until_gone("Machine", "web").await;
        story.counts("machines", "allowed", 2);
    });
}

#[test]
fn what_contradicts_itself_is_refused_with_all_that_is_wrong() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        let spec = json!({ "disks": [{ "name": "data" }], "cloudInit": ours() });
        let answer = story.try_create("Machine", "web", spec).await;
        answer.refuses(&[
            "spec.disks[0].size: is missing: give the size of disk \"data\"",
            "spec.cloudInit.secretRef.name: is the name of the Secret that the operator makes",
        ]);
        assert!(story.find("Machine", "web").await.is_none());
    });
}

#[test]
fn what_may_still_come_is_taken_with_warnings_in_the_words_of_the_conditions() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        let spec = json!({
            "machineClass": "gold",
            "networks": [{ "name": "lan", "networkName": "prod" }],
            "disks": [{ "name": "root", "size": "10Gi", "storageClass": "fast" }],
            "cloudInit": { "secretRef": { "name": "users" } },
        });
        let words = [
            "spec.machineClass: no MachineClass is named \"gold\": create it, or name another",
            "spec.networks[0].networkName: no NetworkConfiguration is named \"prod\" in this namespace",
            "spec.disks[0].storageClass: no StorageClass is named \"fast\"",
            "spec.cloudInit.secretRef.name: no Secret is named \"users\" in this namespace",
        ];
        story.try_create("Machine", "web", spec).await.warns(&words);
        let machine = story.until_reason("web", "TemplateNotFound").await;
        let told = condition(&machine, "SpecValid")["message"]
            .as_str()
            .unwrap();
        for words in words {
            let (_, words) = words.split_once(": ").unwrap();
            assert!(told.contains(words), "{words} is not in {told}");
        }
    });
}

#[test]
fn what_was_stored_with_problems_can_be_mended_one_at_a_time() {
    tell_in_sandbox(BECAUSE, async {
        let mut story = Story::with_webhook().await;
        story.forget_webhook();
        let spec = json!({ "disks": [{ "name": "data" }], "cloudInit": ours() });
        story.try_create("Machine", "web", spec).await.is_silent();
        story.until_reason("web", "InvalidSpec").await;
        story.restart_operator().await;

        let label = json!({ "metadata": { "labels": { "team": "a" } } });
        story.try_patch("Machine", "web", label).await.is_silent();
        let mended = json!({ "spec": { "disks": null } });
        let answer = story.try_patch("Machine", "web", mended).await;
        answer.warns(&["spec.cloudInit.secretRef.name: is the name of the Secret that"]);
        let worse = json!({ "spec": { "disks": [{ "name": "more" }] } });
        let answer = story.try_patch("Machine", "web", worse).await;
        answer.refuses(&["spec.disks[0].size: is missing"]);
        assert!(!answer.message.contains("cloudInit"), "{}", answer.message);
        let mended = json!({ "spec": { "cloudInit": null } });
        story.try_patch("Machine", "web", mended).await.is_silent();
        story.until_phase("web", "Running").await;
        story.try_delete("Machine", "web").await.is_silent();
        story.until_gone("Machine", "web").await;
    });
}

#[test]
fn the_name_of_a_virtual_machine_is_had_once() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        let named = json!({ "name": "shop" });
        story
            .try_create("Machine", "web", named.clone())
            .await
            .is_silent();
        story.wait(1).await;
        let words = "VirtualMachine \"shop\" belongs to Machine \"web\"";
        let answer = story.try_create("Machine", "db", named).await;
        answer.refuses(&[&format!("spec.name: {words}")]);
        let answer = story.try_create("Machine", "shop", json!({})).await;
        answer.refuses(&[&format!("metadata.name: {words}")]);

        let theirs = json!({
            "metadata": { "name": "old" },
            "spec": {
                "runStrategy": "Halted",
                "template": { "spec": { "domain": { "devices": {} } } },
            },
        });
        story.create("VirtualMachine", theirs).await;
        let answer = story.try_create("Machine", "old", json!({})).await;
        answer.refuses(&["VirtualMachine \"old\" exists and does not belong to this Machine"]);
        story.delete("VirtualMachine", "old").await;
        story.until_gone("VirtualMachine", "old").await;
        story
            .try_create("Machine", "old", json!({}))
            .await
            .is_silent();
        story.until_phase("old", "Running").await;
    });
}

#[test]
fn a_mac_address_is_had_once_on_a_network() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        for network in ["prod", "test"] {
            story.network(network).await;
        }
        story.wait(1).await;
        let spec = json!({ "networks": on("prod", "52:54:00:aa:bb:cc") });
        story.try_create("Machine", "web", spec).await.is_silent();
        story.wait(1).await;
        let spec = json!({ "networks": on("prod", "52:54:00:AA:BB:CC") });
        let answer = story.try_create("Machine", "db", spec).await;
        answer.refuses(&[
            "spec.networks[0].macAddress: \"52:54:00:AA:BB:CC\" is also that of Machine \"web\"",
        ]);
        let spec = json!({ "networks": on("test", "52:54:00:aa:bb:cc") });
        let answer = story.try_create("Machine", "db", spec).await;
        answer.warns(&["is also that of Machine \"web\" on another network"]);
    });
}

#[test]
fn a_network_in_use_is_not_deleted_and_tells_who_uses_it() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        story.network("prod").await;
        story.wait(1).await;
        let spec = json!({ "networks": on("prod", "52:54:00:aa:bb:cc") });
        story.try_create("Machine", "web", spec).await.is_silent();
        story.until_phase("web", "Running").await;
        let vlan = json!({ "spec": { "vlan": 7 } });
        let answer = story.try_patch("NetworkConfiguration", "prod", vlan).await;
        answer.warns(&["spec.vlan: 1 Machine is on this network (web)"]);
        let answer = story.try_delete("NetworkConfiguration", "prod").await;
        let words = "NetworkConfiguration \"prod\" is in use by 1 Machine (web)";
        answer.refuses_with(409, &[words]);
        let network = story.get("NetworkConfiguration", "prod").await;
        assert!(network["metadata"]["deletionTimestamp"].is_null());

        story.try_delete("Machine", "web").await.is_silent();
        story.wait(1).await;
        story
            .try_delete("NetworkConfiguration", "prod")
            .await
            .is_silent();
        story.until_gone("NetworkConfiguration", "prod").await;
    });
}

#[test]
fn a_namespace_goes_with_a_network_that_is_in_use() {
    tell_in_sandbox(BECAUSE, async {
        let mut story = Story::with_webhook().await;
        story.namespace = "short-lived".to_owned();
        let namespace = json!({ "metadata": { "name": "short-lived" } });
        story.create("Namespace", namespace).await;
        story.network("prod").await;
        story.wait(1).await;
        let spec = json!({ "networks": on("prod", "52:54:00:aa:bb:cc") });
        story.try_create("Machine", "web", spec).await.is_silent();
        story.until_phase("web", "Running").await;
        story.delete("Namespace", "short-lived").await;
        story.until_gone("Namespace", "short-lived").await;
    });
}

#[test]
fn a_class_in_use_goes_with_a_warning_and_one_that_cannot_work_is_refused() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        let class = |cores: i64| {
            json!({
                "cpu": { "cores": cores, "sockets": 64 }, "memory": { "quantity": "1Gi" },
                "disks": [{ "name": "root", "size": "10Gi" }],
            })
        };
        let answer = story.try_create("MachineClass", "huge", class(65)).await;
        answer.refuses(&["spec.cpu: asks for 4160 CPUs"]);
        let small = json!({ "cpu": { "cores": 1 }, "memory": { "quantity": "1Gi" },
            "disks": [{ "name": "root", "size": "10Gi", "storageClass": "fast" }] });
        let answer = story.try_create("MachineClass", "gold", small).await;
        answer.warns(&["spec.disks[0].storageClass: no StorageClass is named \"fast\""]);
        story.wait(1).await;
        let spec = json!({ "machineClass": "gold", "powerState": "Stopped" });
        let answer = story.try_create("Machine", "web", spec).await;
        answer.warns(&[
            "spec.machineClass: disk \"root\" of MachineClass \"gold\": no StorageClass is named \"fast\"",
        ]);
        story.wait(1).await;
        // It has never got the class.
        story.try_delete("MachineClass", "gold").await.is_silent();
        assert!(story.find("MachineClass", "gold").await.is_none());
    });
}

#[test]
fn who_has_a_class_is_told_when_it_is_disabled_or_deleted() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        let class = json!({
            "cpu": { "cores": 1 }, "memory": { "quantity": "1Gi" }, "default": true,
            "disks": [{ "name": "root", "size": "10Gi" }],
        });
        story
            .try_create("MachineClass", "old", class.clone())
            .await
            .is_silent();
        story.wait(2).await;
        let machines = [
            ("unnamed", json!({})),
            ("named", json!({ "machineClass": "old" })),
        ];
        for (machine, spec) in machines {
            story.try_create("Machine", machine, spec).await.is_silent();
            story.until_phase(machine, "Running").await;
        }
        let answer = story.try_create("MachineClass", "new", class).await;
        answer.warns(&["MachineClass \"old\" is marked default too"]);
        story.wait(1).await;
        story
            .try_create("Machine", "late", json!({}))
            .await
            .is_silent();
        story.until_phase("late", "Running").await;

        let users = "there are 2 Machines of this class (default/named, default/unnamed)";
        let off = json!({ "spec": { "enabled": false } });
        let answer = story.try_patch("MachineClass", "old", off).await;
        answer.warns(&[users, "and no other can take it"]);
        story.wait(1).await;
        story
            .try_delete("MachineClass", "old")
            .await
            .warns(&[users]);
        let answer = story.try_delete("MachineClass", "new").await;
        answer.warns(&["there is 1 Machine of this class (default/late)"]);
    });
}

#[test]
fn what_a_quota_has_no_room_for_is_told() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "budget" },
            "spec": { "hard": {
                "requests.storage": "10Gi", "requests.memory": "1Gi",
                "standard.storageclass.storage.k8s.io/persistentvolumeclaims": "0",
                "count/virtualmachines.kubevirt.io": "5",
            } },
        });
        story.give(quota).await;
        story
            .until("ResourceQuota", "budget", |quota| {
                quota["status"]["used"].is_object()
            })
            .await;
        let answer = story.try_create("Machine", "web", json!({})).await;
        answer.warns(&[
            "ResourceQuota \"budget\" has 10Gi of requests.storage left, and this needs 20Gi",
            "ResourceQuota \"budget\" has 1Gi of requests.memory left, and this needs 2Gi",
            "has 0 of standard.storageclass.storage.k8s.io/persistentvolumeclaims left",
        ]);
        assert_eq!(answer.warnings.len(), 3, "{:?}", answer.warnings);
    });
}

#[test]
fn a_disk_does_not_shrink_and_a_smaller_template_says_so() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        let spec = json!({ "template": "large" });
        story.try_create("Machine", "web", spec).await.is_silent();
        story.until_phase("web", "Running").await;
        let shrunk = json!({ "spec": { "disks": [{ "name": "root", "size": "10Gi" }] } });
        let answer = story.try_patch("Machine", "web", shrunk).await;
        answer.refuses(&["spec.disks[0].size: disk \"root\" has 80Gi and cannot shrink to 10Gi"]);
        let smaller = json!({ "spec": { "template": "small" } });
        let answer = story.try_patch("Machine", "web", smaller).await;
        answer.warns(&["disk \"root\" keeps its 80Gi"]);
    });
}

#[test]
fn a_disk_from_an_image_has_the_size_that_was_asked_for() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        let image = json!({ "http": { "url": "https://images.example/debian.qcow2" } });
        let root = json!({ "name": "root", "source": image });
        let sized = |size: &str| json!({ "name": "root", "source": image, "size": size });
        let data = json!({ "name": "data", "source": { "blank": {} }, "size": "10Gi" });
        let disks = |disks: Value| json!({ "spec": { "disks": disks } });
        let spec = json!({ "disks": [root, data] });
        story.try_create("Machine", "web", spec).await.is_silent();
        story.until_phase("web", "Running").await;
        let claim = story.get("PersistentVolumeClaim", "web-root").await;
        let asked = &claim["spec"]["resources"]["requests"]["storage"];
        assert_ne!(asked, "20Gi", "CDI adds what a file system needs");

        for change in [
            json!({ "spec": { "powerState": "Stopped" } }),
            disks(json!([sized("20Gi"), data])),
            disks(json!([sized("20Gi")])),
            disks(json!([sized("20Gi"), data])),
            disks(json!([sized("21Gi"), data])),
        ] {
            story.try_patch("Machine", "web", change).await.is_silent();
            story.wait(60).await;
        }
        let mut less = data.clone();
        less["size"] = "9Gi".into();
        let detached = disks(json!([sized("21Gi")]));
        story
            .try_patch("Machine", "web", detached)
            .await
            .is_silent();
        let smaller = disks(json!([sized("21Gi"), less]));
        let answer = story.try_patch("Machine", "web", smaller).await;
        answer.refuses(&["spec.disks[1].size: disk \"data\" has 10Gi and cannot shrink to 9Gi"]);
    });
}

#[test]
fn a_disk_that_a_quota_keeps_from_being_made_can_be_asked_smaller() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": "budget" },
            "spec": { "hard": { "requests.storage": "50Gi" } },
        });
        story.give(quota).await;
        story
            .until("ResourceQuota", "budget", |quota| {
                quota["status"]["used"].is_object()
            })
            .await;
        let spec = json!({ "template": "large" });
        let answer = story.try_create("Machine", "web", spec).await;
        answer.warns(&["has 50Gi of requests.storage left, and this needs 80Gi"]);
        story.until_reason("web", "InsufficientResources").await;
        let less = json!({ "spec": { "disks": [{ "name": "root", "size": "40Gi" }] } });
        story.try_patch("Machine", "web", less).await.is_silent();
        story.until_phase("web", "Running").await;
    });
}

#[test]
fn a_disk_that_cannot_grow_is_not_asked_to() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        let sized = |size: &str| json!({ "disks": [{ "name": "root", "size": size, "storageClass": "fixed" }] });
        let answer = story.try_create("Machine", "web", sized("20Gi")).await;
        answer.is_silent();
        story.until_phase("web", "Running").await;
        let grown = json!({ "spec": sized("2000Gi") });
        let answer = story.try_patch("Machine", "web", grown.clone()).await;
        answer.refuses(&["spec.disks[0].size: disk \"root\" cannot grow from 20Gi to 2000Gi"]);
        // Something else that is missing does not hide it.
        let mut hidden = grown.clone();
        hidden["spec"]["networks"] = json!([{ "name": "lan", "networkName": "later" }]);
        let answer = story.try_patch("Machine", "web", hidden).await;
        answer.refuses(&["spec.disks[0].size: disk \"root\" cannot grow from 20Gi to 2000Gi"]);
        // What it says helps.
        let allowed = json!({ "allowVolumeExpansion": true });
        story.patch("StorageClass", "fixed", allowed).await;
        story.wait(1).await;
        story.try_patch("Machine", "web", grown).await.is_silent();
    });
}

#[test]
fn what_a_class_has_become_counts_from_the_next_start() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        let class = |size: &str| {
            json!({
                "cpu": { "cores": 1 }, "memory": { "quantity": "1Gi" },
                "disks": [{ "name": "root", "size": size, "storageClass": "fixed" }],
            })
        };
        let made = story.try_create("MachineClass", "gold", class("10Gi"));
        made.await.is_silent();
        story.wait(1).await;
        let spec = json!({ "machineClass": "gold" });
        story.try_create("Machine", "web", spec).await.is_silent();
        story.until_phase("web", "Running").await;
        let larger = json!({ "spec": class("20Gi") });
        story.patch("MachineClass", "gold", larger).await;
        story.wait(1).await;
        let cores = json!({ "spec": { "cpu": { "sockets": 2 } } });
        story.try_patch("Machine", "web", cores).await.is_silent();
        let restart = json!({ "spec": { "restartedAt": "2026-11-15T12:00:00Z" } });
        let answer = story.try_patch("Machine", "web", restart).await;
        answer.warns(&["disk \"root\" cannot grow from 10Gi to 20Gi"]);
    });
}

#[test]
fn without_the_webhook_everything_goes_on() {
    tell_in_sandbox(BECAUSE, async {
        let mut story = Story::with_webhook().await;
        let broken = json!({ "disks": [{ "name": "data" }] });
        let answer = story.try_create("Machine", "web", broken.clone()).await;
        answer.refuses(&["spec.disks[0].size"]);

        // Nobody is there who knows the cluster; what contradicts itself does so all the same.
        story.stop_operator().await;
        let torn = json!({ "cloudInit": ours() });
        let answer = story.try_create("Machine", "web", torn).await;
        answer.refuses(&["spec.cloudInit.secretRef.name: is the name of the Secret that"]);
        let spec = json!({ "machineClass": "gold" });
        let answer = story.try_create("Machine", "gold", spec).await;
        answer.warns(&["not checked against the cluster"]);
        assert_eq!(answer.warnings.len(), 1, "{:?}", answer.warnings);

        // Nobody is there at all.
        story.forget_webhook();
        story.try_create("Machine", "web", broken).await.is_silent();
        story.network("prod").await;
        story
            .try_delete("NetworkConfiguration", "prod")
            .await
            .is_silent();
        story.start_operator();
        story.until_reason("web", "InvalidSpec").await;
        story.until_reason("gold", "TemplateNotFound").await;
    });
}

#[test]
fn a_dry_run_is_told_the_same_and_makes_nothing() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        let machine = |spec: Value| {
            json!({
                "apiVersion": api::API_VERSION, "kind": "Machine",
                "metadata": { "name": "web" }, "spec": spec,
            })
        };
        let all = "?dryRun=All";
        let broken = machine(json!({ "disks": [{ "name": "data" }] }));
        let missing = machine(json!({ "machineClass": "gold" }));
        let json = "application/json";
        let answer = story
            .send(Method::POST, "Machine", all, (json, &broken))
            .await;
        answer.refuses(&["spec.disks[0].size: is missing"]);
        let answer = story
            .send(Method::POST, "Machine", all, (json, &missing))
            .await;
        answer.warns(&["no MachineClass is named \"gold\""]);
        assert!(story.find("Machine", "web").await.is_none());
    });
}

#[test]
fn machines_of_other_namespaces_are_left_to_others() {
    tell_in_sandbox(BECAUSE, async {
        let mut story = Story::with_webhook().await;
        story.stop_operator().await;
        story.start_operator_with(|options| options.namespaces = vec!["team-a".to_owned()]);
        story.wait(1).await;
        let spec = json!({ "machineClass": "gold" });
        story.try_create("Machine", "web", spec).await.is_silent();
    });
}

#[test]
fn verdicts_are_counted() {
    tell_in_sandbox(BECAUSE, async {
        let story = Story::with_webhook().await;
        let broken = json!({ "disks": [{ "name": "data" }] });
        story.try_create("Machine", "a", broken).await.refuses(&[]);
        let missing = json!({ "machineClass": "gold" });
        story.try_create("Machine", "b", missing).await.warns(&[]);
        story.counts("machines", "refused", 1);
        story.counts("machines", "warned", 1);
    });
}
