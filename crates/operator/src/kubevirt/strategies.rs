//! The strategies that are at hand.
//!
//! A strategy comes from a file, or else from a ConfigMap of the cluster, which is read by name when
//! its deployment is aimed at, parsed, and let go of when it is not any more. What cannot be read is
//! told, and read again when it changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use api::kubevirt::install::{self, KubeVirt};
use k8s_openapi::api::core::v1::ConfigMap;
use plan::kubevirt::{
    Id, Live, Operator, Strategy, Target, observed::Served, strategy::decode, target,
};

use tokio::time::Instant;

use super::kinds::GroupKind;
use crate::requests::{Requests, is_code};

/// A strategy of a file, for the version that it is of.
#[derive(Clone, Debug)]
pub struct Given {
    /// The version.
    pub version: String,
    /// What is in it.
    pub strategy: Arc<Strategy>,
}

/// The strategies that are at hand.
#[derive(Debug, Default)]
pub(super) struct Strategies {
    given: Vec<Given>,
    held: BTreeMap<String, Arc<Strategy>>,
    unreadable: BTreeMap<String, String>,
    /// The ConfigMaps that they were read from, as they were then.
    sources: BTreeMap<String, Source>,
    /// When those are asked for again that could not be.
    again: BTreeMap<String, Instant>,
}

/// A ConfigMap in a state of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    uid: Box<str>,
    resource_version: Box<str>,
}

/// A strategy that is to be read.
#[derive(Clone, Debug)]
pub(super) struct Place {
    deployment: String,
    config_map: Id,
    source: Source,
}

/// What came of reading a strategy.
pub(super) struct Read {
    place: Place,
    found: Found,
}

enum Found {
    Strategy(Strategy),
    /// The watch will tell that it is gone.
    Nothing,
    /// It is not one, for as long as it is as it is.
    Unreadable(String),
    /// It could not be asked for.
    Failed(String),
}

/// A deployment that may be aimed at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    id: String,
    version: String,
}

/// The deployments that may be aimed at: what is asked for, and the last that worked for as long as
/// the other cannot be had, or when it was given up.
pub(super) fn wanted(
    kubevirt: &KubeVirt,
    operator: &Operator,
    served: &Served,
    held: &BTreeMap<String, Arc<Strategy>>,
) -> Vec<Wanted> {
    let asked = target(kubevirt, operator, served).ok();
    let asked = asked.map(|Target { id, version, .. }| Wanted { id, version });
    let annotations = kubevirt.metadata.annotations.as_ref();
    let given_up = annotations.and_then(|annotations| annotations.get(install::GIVEN_UP));
    let is_had = asked
        .as_ref()
        .is_some_and(|asked| held.contains_key(&asked.id) && given_up != Some(&asked.id));
    let last_good = kubevirt.status.as_ref().and_then(|status| {
        Some(Wanted {
            id: status.observed_deployment_id.clone()?,
            version: status.observed_kube_virt_version.clone()?,
        })
    });
    let last_good = last_good.filter(|_| !is_had);
    asked.into_iter().chain(last_good).collect()
}

impl Strategies {
    pub(super) fn new(given: Vec<Given>) -> Self {
        Self {
            given,
            ..Self::default()
        }
    }

    /// Those that are at hand, by deployment ID.
    pub(super) fn held(&self) -> &BTreeMap<String, Arc<Strategy>> {
        &self.held
    }

    /// Those that cannot be read, by deployment ID.
    pub(super) fn unreadable(&self) -> &BTreeMap<String, String> {
        &self.unreadable
    }

    /// The kinds of their objects.
    pub(super) fn kinds(&self) -> BTreeSet<GroupKind> {
        let objects = self.held.values().flat_map(|strategy| &strategy.objects);
        objects
            .map(|object| (Arc::clone(&object.id.group), Arc::clone(&object.id.kind)))
            .collect()
    }

    /// Lets go of all but these, and takes those of files.
    pub(super) fn keep(&mut self, wanted: &[Wanted]) {
        let is_wanted = |id: &String| wanted.iter().any(|target| target.id == *id);
        self.held.retain(|id, _| is_wanted(id));
        self.unreadable.retain(|id, _| is_wanted(id));
        self.sources.retain(|id, _| is_wanted(id));
        self.again.retain(|id, _| is_wanted(id));
        for target in wanted {
            let mut given = self.given.iter();
            if let Some(given) = given.find(|given| given.version == target.version) {
                let strategy = Arc::clone(&given.strategy);
                self.held.entry(target.id.clone()).or_insert(strategy);
            }
        }
    }

    /// Those of the wanted ones that are in a ConfigMap, and were not read yet as it is now.
    pub(super) fn missing(
        &self,
        wanted: &[Wanted],
        objects: &BTreeMap<Id, Live>,
        now: Instant,
    ) -> Vec<Place> {
        let from_files = |target: &&Wanted| {
            let mut given = self.given.iter();
            !given.any(|given| given.version == target.version)
        };
        let missing = wanted.iter().filter(from_files).filter_map(|target| {
            let live = newest(objects, &target.id)?;
            let source = Source {
                uid: live.uid.clone(),
                resource_version: live.resource_version.clone(),
            };
            let rests = self.again.get(&target.id).is_some_and(|again| *again > now);
            let is_known = self.sources.get(&target.id) == Some(&source);
            (!is_known && !rests).then(|| Place {
                deployment: target.id.clone(),
                config_map: live.id.clone(),
                source,
            })
        });
        missing.collect()
    }

    /// Takes in what was read. What could not be asked for is asked for again at that time.
    pub(super) fn take(&mut self, read: Read, again: Instant) {
        let Read { place, found } = read;
        let Place {
            deployment, source, ..
        } = place;
        self.unreadable.remove(&deployment);
        self.again.remove(&deployment);
        match found {
            Found::Strategy(strategy) => {
                for repair in &strategy.repairs {
                    tracing::debug!(deployment, "repaired the install strategy: {repair}");
                }
                self.held.insert(deployment.clone(), Arc::new(strategy));
            }
            Found::Nothing => {}
            Found::Unreadable(why) => {
                tracing::warn!(deployment, "the strategy cannot be read: {why}");
                self.held.remove(&deployment);
                self.unreadable.insert(deployment.clone(), why);
            }
            Found::Failed(why) => {
                tracing::warn!(deployment, "the strategy cannot be read now: {why}");
                self.again.insert(deployment, again);
                return;
            }
        }
        self.sources.insert(deployment, source);
    }

    /// When something is to be asked for again. A time that has passed is of a ConfigMap that is
    /// gone: there is nothing to be asked for before another one is told of.
    pub(super) fn again(&self, now: Instant) -> Option<Instant> {
        let times = self.again.values().copied();
        times.filter(|again| *again > now).min()
    }
}

/// The ConfigMap with the strategy of a deployment: the newest, if there are several.
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

/// Reads a strategy.
pub(super) async fn read(requests: &Requests, place: Place) -> Read {
    let Id {
        namespace, name, ..
    } = &place.config_map;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    let found = match requests.get(&path).await {
        Ok(found) => match parse(found) {
            Ok(strategy) => Found::Strategy(strategy),
            Err(why) => Found::Unreadable(why),
        },
        Err(error) if is_code(&error, 404) => Found::Nothing,
        Err(error) => Found::Failed(error.to_string()),
    };
    Read { place, found }
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

    use super::{Found, Place, Read, Source, Strategies};

    #[test]
    fn what_could_not_be_read_and_is_gone_wakes_nobody() {
        let now = Instant::now();
        let mut strategies = Strategies::new(Vec::new());
        let place = Place {
            deployment: "a".to_owned(),
            config_map: Id::new("", "ConfigMap", "kubevirt", "a"),
            source: Source {
                uid: "u".into(),
                resource_version: "1".into(),
            },
        };
        let found = Found::Failed("told to fail".to_owned());
        let again = now + Duration::from_secs(4);
        strategies.take(Read { place, found }, again);
        assert_eq!(strategies.again(now), Some(again));
        assert_eq!(strategies.again(again), None);
    }
}
