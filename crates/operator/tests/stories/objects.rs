//! Objects of any kind, as stories look at them.

use std::time::Duration;

use futures::StreamExt as _;
use kube::{
    Api,
    api::{DynamicObject, ListParams, ObjectList, WatchEvent, WatchParams},
};
use serde_json::Value;
use tokio::time::{sleep, timeout};

const STEP: Duration = Duration::from_millis(100);
const LONGEST_LIST: Duration = Duration::from_secs(60);

/// An object as JSON.
pub(crate) fn as_value(object: DynamicObject) -> Value {
    serde_json::to_value(object).unwrap()
}

/// A condition of an object; null if there is none of that type.
pub(crate) fn condition<'a>(object: &'a Value, type_: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == type_);
    found.unwrap_or(&Value::Null)
}

/// Follows an object until it is as it should be; without asking for it again and again, so that
/// minutes cost nothing. If it does not become so, tells how it was last.
pub(crate) async fn follow(
    api: &Api<DynamicObject>,
    name: &str,
    patience: Duration,
    is_so: impl Fn(Option<&Value>) -> bool,
) -> Result<Option<Value>, String> {
    let mut last = None;
    let following = async {
        loop {
            let Some(version) = look(api, name, &mut last).await else {
                last = None;
                if is_so(None) {
                    return;
                }
                // Its kind is not served: that it will be cannot be watched here.
                sleep(Duration::from_secs(1)).await;
                continue;
            };
            if is_so(last.as_ref()) {
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
                if is_so(last.as_ref()) {
                    return;
                }
            }
        }
    };
    match timeout(patience, following).await {
        Ok(()) => Ok(last),
        Err(_) => Err(shown(last)),
    }
}

/// Lists objects of a kind as soon as the API server serves it: it says so a little before.
pub(crate) async fn list(api: &Api<DynamicObject>) -> ObjectList<DynamicObject> {
    let listed = async {
        loop {
            if let Some(listed) = list_if_served(api, &ListParams::default()).await {
                return listed;
            }
            sleep(STEP).await;
        }
    };
    timeout(LONGEST_LIST, listed).await.unwrap()
}

/// Lists objects of a kind, unless it is not served. An API server that starts to store a kind, or does
/// so in another version, asks for patience.
pub(crate) async fn list_if_served(
    api: &Api<DynamicObject>,
    params: &ListParams,
) -> Option<ObjectList<DynamicObject>> {
    let listed = async {
        loop {
            match api.list(params).await {
                Err(kube::Error::Api(status)) if status.code == 404 => return None,
                Err(kube::Error::Api(status)) if [429, 503].contains(&status.code) => {
                    sleep(STEP).await;
                }
                listed => return Some(listed.unwrap()),
            }
        }
    };
    timeout(LONGEST_LIST, listed).await.unwrap()
}

/// Looks at an object, and tells from which version on to follow it; nothing if its kind is not
/// served.
async fn look(api: &Api<DynamicObject>, name: &str, found: &mut Option<Value>) -> Option<String> {
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let mut listed = list_if_served(api, &params).await?;
    *found = listed.items.pop().map(as_value);
    Some(listed.metadata.resource_version.unwrap_or_default())
}

fn shown(object: Option<Value>) -> String {
    let Some(mut object) = object else {
        return "it is not there".to_owned();
    };
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    format!("{object:#}")
}
