//! Reads and waits for objects of any kind.

use std::time::Duration;

use futures::StreamExt as _;
use kube::{
    Api,
    api::{DynamicObject, ListParams, ObjectList, WatchEvent, WatchParams},
};
use serde_json::Value;
use tokio::time::{sleep, timeout};

const POLL_INTERVAL: Duration = Duration::from_millis(100);
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn as_value(object: DynamicObject) -> Value {
    serde_json::to_value(object).unwrap()
}

/// Condition of an object; null if it has none of that type.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == type_);
    found.unwrap_or(&Value::Null)
}

/// Waits until an object satisfies `matches`, by watching instead of polling: a wait of minutes in virtual
/// time costs nothing. On timeout the error is the object's last state.
pub(crate) async fn wait_for(
    api: &Api<DynamicObject>,
    name: &str,
    limit: Duration,
    matches: impl Fn(Option<&Value>) -> bool,
) -> Result<Option<Value>, String> {
    let mut last = None;
    let waiting = async {
        loop {
            let Some(version) = get_latest(api, name, &mut last).await else {
                last = None;
                if matches(None) {
                    return;
                }
                // Its kind is not served, so that it cannot be watched either.
                sleep(Duration::from_secs(1)).await;
                continue;
            };
            if matches(last.as_ref()) {
                return;
            }
            let params = WatchParams::default().fields(&format!("metadata.name={name}"));
            let Ok(events) = api.watch(&params, &version).await else {
                continue;
            };
            let mut events = events.boxed();
            while let Some(Ok(event)) = events.next().await {
                last = match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        Some(as_value(object))
                    }
                    WatchEvent::Deleted(_) => None,
                    WatchEvent::Bookmark(_) => continue,
                    WatchEvent::Error(_) => break,
                };
                if matches(last.as_ref()) {
                    return;
                }
            }
        }
    };
    match timeout(limit, waiting).await {
        Ok(()) => Ok(last),
        Err(_) => Err(describe(last)),
    }
}

/// Lists objects of a kind. Retries while the kind is not served: discovery shows it a little earlier.
pub(crate) async fn list(api: &Api<DynamicObject>) -> ObjectList<DynamicObject> {
    let listed = async {
        loop {
            if let Some(listed) = list_if_served(api, &ListParams::default()).await {
                return listed;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    timeout(LIST_TIMEOUT, listed).await.unwrap()
}

/// Lists objects of a kind, or returns `None` if it is not served. Retries 429 and 503, which API servers
/// answer while they set up the storage of a kind.
pub(crate) async fn list_if_served(
    api: &Api<DynamicObject>,
    params: &ListParams,
) -> Option<ObjectList<DynamicObject>> {
    let listed = async {
        loop {
            match api.list(params).await {
                Err(kube::Error::Api(status)) if status.code == 404 => return None,
                Err(kube::Error::Api(status)) if [429, 503].contains(&status.code) => {
                    sleep(POLL_INTERVAL).await;
                }
                listed => return Some(listed.unwrap()),
            }
        }
    };
    timeout(LIST_TIMEOUT, listed).await.unwrap()
}

/// Gets an object into `found` and returns the resourceVersion to watch from; `None` if its kind is not
/// served.
async fn get_latest(
    api: &Api<DynamicObject>,
    name: &str,
    found: &mut Option<Value>,
) -> Option<String> {
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let mut listed = list_if_served(api, &params).await?;
    *found = listed.items.pop().map(as_value);
    Some(listed.metadata.resource_version.unwrap_or_default())
}

fn describe(object: Option<Value>) -> String {
    let Some(mut object) = object else {
        return "it does not exist".to_owned();
    };
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    format!("{object:#}")
}
