//! Cache of install strategies.
//!
//! A strategy comes from a file, or from a ConfigMap of the cluster, which is read when its deployment is
//! a target, and dropped when it no longer is. A strategy that cannot be parsed is reported, and read
//! again when the ConfigMap changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::kubevirt::install::{self, KubeVirt};
use apimachinery::retry_ledger::RetryLedger;
use k8s_openapi::api::core::v1::ConfigMap;
use plan::kubevirt::{
    Id, Live, Operator, Strategy, Target, observed::Served, strategy::decode, target,
};

use tokio::time::Instant;

use super::kinds::GroupKind;
use crate::requests::{Requests, is_code};

/// Install strategy from a file.
#[derive(Clone, Debug)]
pub struct StrategyFile {
    /// KubeVirt version of the strategy.
    pub version: String,
    pub strategy: Arc<Strategy>,
}

#[derive(Debug, Default)]
pub(super) struct Strategies {
    files: Vec<StrategyFile>,
    /// By deployment ID, as all maps here.
    cached: BTreeMap<String, Arc<Strategy>>,
    unreadable: BTreeMap<String, String>,
    /// Versions of the ConfigMaps that the strategies were read from.
    versions: BTreeMap<String, ConfigMapVersion>,
    /// Failed reads.
    retries: RetryLedger<String, (), Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ConfigMapVersion {
    uid: Box<str>,
    resource_version: Box<str>,
}

/// ConfigMap to read a strategy from.
#[derive(Clone, Debug)]
pub(super) struct StrategySource {
    deployment: String,
    config_map: Id,
    version: ConfigMapVersion,
}

/// Completed read of a strategy.
pub(super) struct Read {
    source: StrategySource,
    result: ReadResult,
}

enum ReadResult {
    Strategy(Strategy),
    /// The ConfigMap is gone; the watch delivers the deletion.
    NotFound,
    /// The ConfigMap does not contain a valid strategy.
    Invalid(String),
    /// The request failed.
    Failed(String),
}

/// Deployment that the plan may need the strategy of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    id: String,
    version: String,
}

/// Deployments that the plan may need: the target, and the last observed one while the target's strategy
/// is not available or its rollout was given up.
pub(super) fn wanted(
    kubevirt: &KubeVirt,
    operator: &Operator,
    served: &Served,
    cached: &BTreeMap<String, Arc<Strategy>>,
) -> Vec<Wanted> {
    let target = target(kubevirt, operator, served).ok();
    let target = target.map(|Target { id, version, .. }| Wanted { id, version });
    let annotations = kubevirt.metadata.annotations.as_ref();
    let given_up = annotations.and_then(|annotations| annotations.get(install::GIVEN_UP));
    let is_available = target
        .as_ref()
        .is_some_and(|target| cached.contains_key(&target.id) && given_up != Some(&target.id));
    let last_good = kubevirt.status.as_ref().and_then(|status| {
        Some(Wanted {
            id: status.observed_deployment_id.clone()?,
            version: status.observed_kube_virt_version.clone()?,
        })
    });
    let last_good = last_good.filter(|_| !is_available);
    target.into_iter().chain(last_good).collect()
}

impl Strategies {
    pub(super) fn new(files: Vec<StrategyFile>) -> Self {
        Self {
            files,
            ..Self::default()
        }
    }

    pub(super) fn cached(&self) -> &BTreeMap<String, Arc<Strategy>> {
        &self.cached
    }

    /// Errors of invalid strategies, by deployment ID.
    pub(super) fn unreadable(&self) -> &BTreeMap<String, String> {
        &self.unreadable
    }

    /// Kinds of the objects in the cached strategies.
    pub(super) fn kinds(&self) -> BTreeSet<GroupKind> {
        let objects = self.cached.values().flat_map(|strategy| &strategy.objects);
        objects
            .map(|object| (Arc::clone(&object.id.group), Arc::clone(&object.id.kind)))
            .collect()
    }

    /// Drops all strategies but these, and adds those from files.
    pub(super) fn retain(&mut self, wanted: &[Wanted]) {
        let is_wanted = |id: &String| wanted.iter().any(|target| target.id == *id);
        self.cached.retain(|id, _| is_wanted(id));
        self.unreadable.retain(|id, _| is_wanted(id));
        self.versions.retain(|id, _| is_wanted(id));
        self.retries.retain(is_wanted);
        for target in wanted {
            let mut files = self.files.iter();
            if let Some(file) = files.find(|file| file.version == target.version) {
                let strategy = Arc::clone(&file.strategy);
                self.cached.entry(target.id.clone()).or_insert(strategy);
            }
        }
    }

    /// ConfigMaps of wanted strategies whose current version has not been read.
    pub(super) fn missing(
        &self,
        wanted: &[Wanted],
        objects: &BTreeMap<Id, Live>,
        now: Instant,
    ) -> Vec<StrategySource> {
        let has_no_file = |target: &&Wanted| {
            let mut files = self.files.iter();
            !files.any(|file| file.version == target.version)
        };
        let missing = wanted.iter().filter(has_no_file).filter_map(|target| {
            let live = newest(objects, &target.id)?;
            let version = ConfigMapVersion {
                uid: live.uid.clone(),
                resource_version: live.resource_version.clone(),
            };
            let retry_at = self.retries.retry_at(&target.id);
            let is_delayed = retry_at.is_some_and(|retry_at| retry_at > now);
            let is_known = self.versions.get(&target.id) == Some(&version);
            (!is_known && !is_delayed).then(|| StrategySource {
                deployment: target.id.clone(),
                config_map: live.id.clone(),
                version,
            })
        });
        missing.collect()
    }

    /// Processes a read. A failed request is repeated at `retry_at`.
    pub(super) fn on_read(&mut self, read: Read, retry_at: Instant) {
        let Read { source, result } = read;
        let StrategySource {
            deployment,
            version,
            config_map,
        } = source;
        self.unreadable.remove(&deployment);
        self.retries.clear(&deployment);
        match result {
            ReadResult::Strategy(strategy) => {
                for repair in &strategy.repairs {
                    tracing::debug!(deployment, "repaired the install strategy: {repair}");
                }
                self.cached.insert(deployment.clone(), Arc::new(strategy));
            }
            ReadResult::NotFound => {}
            ReadResult::Invalid(error) => {
                tracing::warn!(deployment, "invalid install strategy: {error}");
                self.cached.remove(&deployment);
                self.unreadable.insert(deployment.clone(), error);
            }
            ReadResult::Failed(error) => {
                tracing::warn!(
                    deployment,
                    "cannot read the install strategy in ConfigMap {}/{}: {error}",
                    config_map.namespace,
                    config_map.name
                );
                self.retries.fail(deployment, (), |_| retry_at);
                return;
            }
        }
        self.versions.insert(deployment, version);
    }

    /// Time of the next attempt. A time in the past belongs to a ConfigMap that is gone; it is not
    /// retried before the watch delivers another one.
    pub(super) fn retry_at(&self, now: Instant) -> Option<Instant> {
        let times = self.retries.iter().map(|(_, retry)| retry.retry_at);
        times.filter(|at| *at > now).min()
    }
}

/// Newest ConfigMap with the install strategy of a deployment.
fn newest<'a>(objects: &'a BTreeMap<Id, Live>, deployment: &str) -> Option<&'a Live> {
    let found = objects.values().filter(|live| {
        live.id.is("", "ConfigMap")
            && live.labels.contains_key(install::STRATEGY)
            && !live.deleting
            && live
                .annotations
                .get(install::STRATEGY_IDENTIFIER)
                .is_some_and(|id| id == deployment)
    });
    found.max_by_key(|live| {
        let created = live.value()["metadata"]["creationTimestamp"]
            .as_str()
            .map(str::to_owned);
        (created, live.id.name.clone())
    })
}

pub(super) async fn read(requests: &Requests, source: StrategySource) -> Read {
    let Id {
        namespace, name, ..
    } = &source.config_map;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    let result = match requests.get(&path).await {
        Ok(found) => match parse(found) {
            Ok(strategy) => ReadResult::Strategy(strategy),
            Err(error) => ReadResult::Invalid(error),
        },
        Err(error) if is_code(&error, 404) => ReadResult::NotFound,
        Err(error) => ReadResult::Failed(error.to_string()),
    };
    Read { source, result }
}

fn parse(found: serde_json::Value) -> Result<Strategy, String> {
    let found: ConfigMap = ::decode::from_value(found).map_err(|error| error.to_string())?;
    let name = found.metadata.name.unwrap_or_default();
    let data = found.data.unwrap_or_default();
    let annotations = found.metadata.annotations.unwrap_or_default();
    let text = decode(&data, &annotations);
    let strategy = text.and_then(|text| Strategy::parse(&text));
    strategy.map_err(|error| format!("ConfigMap {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plan::kubevirt::Id;
    use tokio::time::Instant;

    use super::{ConfigMapVersion, Read, ReadResult, Strategies, StrategySource};

    #[test]
    fn a_failed_read_of_a_deleted_config_map_is_not_retried() {
        let now = Instant::now();
        let mut strategies = Strategies::new(Vec::new());
        let source = StrategySource {
            deployment: "a".to_owned(),
            config_map: Id::new("", "ConfigMap", "kubevirt", "a"),
            version: ConfigMapVersion {
                uid: "u".into(),
                resource_version: "1".into(),
            },
        };
        let result = ReadResult::Failed("timeout".to_owned());
        let retry_at = now + Duration::from_secs(4);
        strategies.on_read(Read { source, result }, retry_at);
        assert_eq!(strategies.retry_at(now), Some(retry_at));
        assert_eq!(strategies.retry_at(retry_at), None);
    }
}
