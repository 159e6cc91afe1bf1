//! Scenarios of whole releases: with the sandbox's synthetic strategies, and with what the operators of real
//! releases write as their install strategies.
//!
//! The latter are not part of the repository: `KUBEVIRT_OPERATOR_DATA` names the folder with
//! `kubevirt/strategy` and `kubevirt/v1.9.0/rbac.operator.yaml`.

mod comparison;
mod crashes;
mod guest;
mod lifecycle;
mod rights;
mod rollback;
mod strategy_files;

use std::{io::Read as _, path::PathBuf, sync::Arc};

use kubevirt_operator::kubevirt::StrategyFile;
use plan::kubevirt::Strategy;
use sandbox::{Setup, Strategies};
use serde_json::{Value, json};

use crate::scenario::{InstallScenario, NAMESPACE, REGISTRY};

/// Definition that the synthetic strategies lack.
const POOLS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: virtualmachinepools.pool.kubevirt.io
spec:
  group: pool.kubevirt.io
  names: {kind: VirtualMachinePool, plural: virtualmachinepools, singular: virtualmachinepool}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

/// Where the data of releases comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The sandbox.
    Fixtures,
    /// The folder of `KUBEVIRT_OPERATOR_DATA`.
    RealData,
}

impl Source {
    /// Strategy of a release with images of a registry, if the release is known.
    fn strategy(self, version: &str, config: &Value) -> Option<String> {
        if self == Self::Fixtures {
            let text = sandbox::synthetic_strategy(version, config)?;
            return Some(format!("{text}---\n{POOLS}"));
        }
        let file = data_folder().join(format!("strategy/{version}-default.yaml.gz"));
        let packed = std::fs::read(file).ok()?;
        let mut text = String::new();
        let mut unpacked = flate2::read::GzDecoder::new(packed.as_slice());
        unpacked.read_to_string(&mut text).unwrap();
        Some(text.replace("quay.io/kubevirt", config["registry"].as_str()?))
    }

    /// Strategy of a release, given as a file.
    fn strategy_file(self, version: &str) -> StrategyFile {
        let config = json!({
            "namespace": NAMESPACE, "registry": REGISTRY, "kubeVirtVersion": version,
        });
        let text = self.strategy(version, &config).unwrap();
        StrategyFile {
            version: version.to_owned(),
            strategy: Arc::new(Strategy::parse(&text).unwrap()),
        }
    }

    /// Makes strategy Jobs answer with the strategies of the releases.
    pub(crate) fn set_up(self, setup: &mut Setup) {
        setup.strategies = Strategies::new(move |version, config| self.strategy(version, config));
    }
}

/// Folder of the real releases' data.
fn data_folder() -> PathBuf {
    let folder = std::env::var_os("KUBEVIRT_OPERATOR_DATA");
    PathBuf::from(
        folder.expect("KUBEVIRT_OPERATOR_DATA names the folder with the data of releases"),
    )
    .join("kubevirt")
}

/// Requests another release, and waits until it is deployed.
async fn upgrade_to(scenario: &InstallScenario, version: &str) {
    scenario.patch_spec(json!({ "imageTag": version })).await;
    scenario.until_deployed(version).await;
}
