//! What a handle remembers beside its object. The last handle lets the object go when it is
//! dropped.

use crate::caller::{CallerKey, CallerKind};
use crate::engine::Engine;
use crate::memory::NodePolicy;
use crate::state::backing::Backing;
use crate::state::dirtier::Dirtier;
use crate::state::errseq::Cursor;
use crate::state::frame::flag;
use crate::state::object::ObjectState;
use crate::state::stream::Stream;
use forebay_base::sync::{Mutex, atomic::Ordering};
use std::sync::Arc;

/// What a handle remembers beside the object.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) engine: Arc<Engine>,
    pub(crate) object: Arc<ObjectState>,
    pub(crate) backing: Arc<Backing>,
    pub(crate) stream: Stream,
    pub(crate) dirtier: Dirtier,
    /// Whose it is.
    pub(crate) caller: CallerKey,
    pub(crate) node_policy: NodePolicy,
    /// Only reading is allowed.
    pub(crate) is_read_only: bool,
    /// Flags of a page whose content must not be changed now.
    pub(crate) unwritable: u64,
    /// Which failures of the object were reported to this handle.
    pub(crate) cursor: Mutex<Cursor>,
}

impl Handle {
    pub(crate) fn new(
        engine: Arc<Engine>,
        object: Arc<ObjectState>,
        node_policy: NodePolicy,
        is_read_only: bool,
        caller: CallerKey,
    ) -> Handle {
        let backing = engine.dirty.backing_of(&object);
        Handle {
            unwritable: if backing.geometry.stable_pages {
                flag::WRITEBACK
            } else {
                0
            },
            stream: Stream::new(engine.pages.readahead_pages()),
            dirtier: Dirtier::default(),
            caller,
            cursor: Mutex::new(object.failures.errors.sample()),
            is_read_only,
            backing,
            node_policy,
            engine,
            object,
        }
    }

    /// Whether the store takes no changes of the object. One that was opened for reading may be
    /// made writable, so only a store that takes them is not asked again.
    pub(crate) fn is_read_only_below(&self) -> bool {
        let known = &self.object.may_be_read_only;
        known.load(Ordering::Relaxed) && {
            let object = self.object.store_object();
            let is_read_only = self.backing.store.is_read_only(object);
            known.store(is_read_only, Ordering::Relaxed);
            is_read_only
        }
    }

    /// Another handle on the same object, under another `node_policy`. It belongs to the same
    /// caller. If the program did not name one, it is a caller of its own.
    pub(crate) fn beside(&self, node_policy: NodePolicy) -> Handle {
        let caller = match self.caller.kind() {
            CallerKind::Handle => self.engine.accounts.ledger.next_handle(),
            _ => self.caller,
        };
        self.beside_for(node_policy, caller)
    }

    /// The same for `caller`.
    pub(crate) fn beside_for(&self, node_policy: NodePolicy, caller: CallerKey) -> Handle {
        self.object.opened.handles.fetch_add(1, Ordering::AcqRel);
        let (engine, object) = (self.engine.clone(), self.object.clone());
        Handle::new(engine, object, node_policy, self.is_read_only, caller)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let engine = &self.engine;
        engine
            .throttle
            .dirtier_gone(self.caller, &self.backing, &self.dirtier);
        let is_last = self.engine.pages.objects.let_go(&self.object);
        // This happens in one call only. If two tasks dropped the pages of the same memory, the
        // second would drop those of the object that gets its number after the first.
        if is_last && self.object.is_anonymous() {
            self.engine.files.drop_anonymous(&self.object);
        } else if is_last {
            self.engine.reclaim.file_closed();
        }
    }
}
