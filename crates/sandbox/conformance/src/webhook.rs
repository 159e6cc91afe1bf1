//! A server for admission webhooks.
use serde_json::Value;

pub(crate) struct Webhooks;

impl Webhooks {
    pub(crate) async fn start() -> Result<Self, crate::Error> {
        Ok(Self)
    }
    pub(crate) fn url(&self) -> &str {
        ""
    }
    pub(crate) fn ca(&self) -> &str {
        ""
    }
    pub(crate) fn program(&self, _path: String, _answer: Value) {}
    pub(crate) fn received(&self, _path: &str) -> Option<Value> {
        None
    }
}
