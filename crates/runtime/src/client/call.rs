//! Verb, resource and outcome of API calls, and their observers.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use http::{Method, StatusCode, Uri};

/// Verb of a call, as in RBAC rules and audit logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Also for paths that are not resources.
    Get,
    List,
    Watch,
    Create,
    Update,
    /// Also for server-side apply.
    Patch,
    Delete,
    DeleteCollection,
}

impl Verb {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallOutcome {
    Status(StatusCode),
    /// No answer in time.
    Timeout,
    /// No answer: the connection failed.
    Error,
}

/// The status code, `timeout` or `error`.
impl fmt::Display for CallOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(code) => f.write_str(code.as_str()),
            Self::Timeout => f.write_str("timeout"),
            Self::Error => f.write_str("error"),
        }
    }
}

/// A call that was made.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub verb: Verb,
    /// Plural and subresource: `pods`, `deployments/status`; empty for paths that are not resources,
    /// such as discovery. It contains no names, so there are few of them.
    pub resource: &'a str,
    pub outcome: CallOutcome,
    /// Time until the whole answer arrived, of a watch its head; without the wait for the rate limit.
    pub duration: Duration,
}

pub trait CallObserver: Send + Sync {
    /// Called once for every call that was sent, when its outcome is known.
    fn on_call(&self, call: &Call<'_>);
}

/// Counts calls by verb, resource and code.
#[derive(Debug, Default)]
pub struct CallCounter {
    counts: Mutex<Counts>,
}

type Counts = BTreeMap<(&'static str, String, String), u64>;

impl CallCounter {
    /// The counts up to now.
    pub fn snapshot(&self) -> Counts {
        self.counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The counts since the last `take`.
    pub fn take(&self) -> Counts {
        std::mem::take(&mut *self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl CallObserver for CallCounter {
    fn on_call(&self, call: &Call<'_>) {
        let key = (
            call.verb.as_str(),
            call.resource.to_owned(),
            call.outcome.to_string(),
        );
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(key).or_default() += 1;
    }
}

/// The verb and the resource of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) verb: Verb,
    pub(super) resource: String,
}

impl Target {
    pub(super) fn of(method: &Method, uri: &Uri) -> Self {
        let path = ResourcePath::of(uri.path());
        let one = path.as_ref().is_none_or(|path| path.named);
        let verb = match *method {
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if one => Verb::Delete,
            Method::DELETE => Verb::DeleteCollection,
            _ if path.is_some() && is_watch(uri.query()) => Verb::Watch,
            _ if one => Verb::Get,
            _ => Verb::List,
        };
        let resource = path.map(|path| match path.subresource {
            Some(subresource) => format!("{}/{subresource}", path.plural),
            None => path.plural.to_owned(),
        });
        Self {
            verb,
            resource: resource.unwrap_or_default(),
        }
    }
}

/// As the API server parses a boolean parameter: present, and neither `0` nor `false`.
fn is_watch(query: Option<&str>) -> bool {
    query
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| match pair.split_once('=') {
            Some(("watch", value)) => Some(value),
            None if pair == "watch" => Some(""),
            _ => None,
        })
        .any(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}

struct ResourcePath<'a> {
    plural: &'a str,
    named: bool,
    subresource: Option<&'a str>,
}

impl<'a> ResourcePath<'a> {
    fn of(path: &'a str) -> Option<Self> {
        let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (["api", _, rest @ ..] | ["apis", _, _, rest @ ..]) = parts.as_slice() else {
            return None;
        };
        let rest = match rest {
            // Namespaces have two subresources; any other segment after their name is a resource.
            ["namespaces", _, "status" | "finalize"] => rest,
            ["namespaces", _, inside @ ..] if !inside.is_empty() => inside,
            _ => rest,
        };
        let (plural, rest) = rest.split_first()?;
        Some(Self {
            plural,
            named: !rest.is_empty(),
            subresource: rest.get(1).copied(),
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("GET", "/apis/vitistack.io/v1alpha1/machines", "list machines")]
    #[case(
        "GET",
        "/apis/vitistack.io/v1alpha1/machines?limit=500&resourceVersion=0",
        "list machines"
    )]
    #[case(
        "GET",
        "/apis/vitistack.io/v1alpha1/machines?&watch=true&timeoutSeconds=290",
        "watch machines"
    )]
    #[case("GET", "/api/v1/pods?watch=1", "watch pods")]
    #[case("GET", "/api/v1/pods?watch=0", "list pods")]
    #[case("GET", "/api/v1/pods?labelSelector=watch", "list pods")]
    #[case("GET", "/api/v1/namespaces/default/secrets/root", "get secrets")]
    #[case("GET", "/api/v1/namespaces/default/secrets", "list secrets")]
    #[case("GET", "/api/v1/namespaces", "list namespaces")]
    #[case("GET", "/api/v1/namespaces/default", "get namespaces")]
    #[case(
        "PUT",
        "/api/v1/namespaces/default/finalize",
        "update namespaces/finalize"
    )]
    #[case(
        "POST",
        "/apis/kubevirt.io/v1/namespaces/a/virtualmachines",
        "create virtualmachines"
    )]
    #[case(
        "PATCH",
        "/apis/vitistack.io/v1alpha1/namespaces/a/machines/m/status?force=true",
        "patch machines/status"
    )]
    #[case(
        "PUT",
        "/apis/subresources.kubevirt.io/v1/namespaces/a/virtualmachines/m/restart",
        "update virtualmachines/restart"
    )]
    #[case(
        "DELETE",
        "/api/v1/namespaces/a/persistentvolumeclaims/m-root",
        "delete persistentvolumeclaims"
    )]
    #[case("DELETE", "/api/v1/namespaces/a/pods", "deletecollection pods")]
    #[case("GET", "/version", "get ")]
    #[case("GET", "/apis/kubevirt.io/v1", "get ")]
    #[case("GET", "/", "get ")]
    fn calls_have_the_verbs_and_resources_of_rbac_rules(
        #[case] method: &str,
        #[case] uri: &str,
        #[case] wanted: &str,
    ) {
        let target = Target::of(&method.parse().unwrap(), &uri.parse().unwrap());
        assert_eq!(
            format!("{} {}", target.verb.as_str(), target.resource),
            wanted
        );
    }

    #[test]
    fn counts_that_were_taken_start_over() {
        let counter = CallCounter::default();
        let call = Call {
            verb: Verb::Get,
            resource: "machines",
            outcome: CallOutcome::Timeout,
            duration: Duration::from_secs(15),
        };
        counter.on_call(&call);
        counter.on_call(&call);
        let key = ("get", "machines".to_owned(), "timeout".to_owned());
        assert_eq!(counter.snapshot(), BTreeMap::from([(key.clone(), 2)]));
        assert_eq!(counter.take(), BTreeMap::from([(key, 2)]));
        assert_eq!(counter.take(), BTreeMap::new());
    }
}
