//! Installation of CustomResourceDefinitions and StorageClasses at the start. Existing objects are
//! not changed, and objects that are deleted later are not recreated.

use serde_json::Value;

use crate::{
    Actor, Caches, Context, Key, Kind,
    kind::{DEFINITION, STORAGE_CLASS},
    object::name,
};

#[derive(Clone, Debug)]
pub struct Install {
    objects: Vec<(Kind, Value)>,
}

impl Install {
    pub fn new(definitions: impl IntoIterator<Item = Value>) -> Self {
        let definitions = definitions
            .into_iter()
            .map(|definition| (DEFINITION, definition));
        let classes = crate::storage::classes()
            .into_iter()
            .map(|class| (STORAGE_CLASS, class));
        Self {
            objects: definitions.chain(classes).collect(),
        }
    }
}

impl Actor for Install {
    fn name(&self) -> &'static str {
        "sandbox"
    }

    fn watches(&self) -> &[Kind] {
        &[DEFINITION, STORAGE_CLASS]
    }

    fn initial_keys(&self) -> Vec<Key> {
        let objects = self.objects.iter();
        objects
            .map(|(kind, object)| Key::new(kind.plural, name(object)))
            .collect()
    }

    fn keys(&self, _: Kind, _: &Value, _: &Caches) -> Vec<Key> {
        Vec::new()
    }

    fn reconcile(&self, ctx: &mut Context<'_>) {
        let wanted = self.objects.iter().find(|(kind, object)| {
            kind.plural == ctx.key.namespace && name(object) == ctx.key.name
        });
        if let Some((kind, object)) = wanted
            && ctx.caches.find(*kind, "", name(object)).is_none()
        {
            ctx.create(*kind, object.clone());
        }
    }
}
