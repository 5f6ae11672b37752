//! What a client remembers between calls: declared inputs, its tasks, its uploads, the durations of
//! models. Pure data, bounded, in this process alone.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use inferstore_api::Decimal;
use inferstore_api::types::{Descriptor, ModelId, TaskId, UploadFolder};
use serde_json::Value;
use siphasher::sip128::{Hasher128, SipHasher13};
use tokio::sync::{Mutex as AsyncMutex, RwLock};
use tokio::time::Instant;

/// What a client remembers between calls.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) declarations: Declarations,
    pub(crate) durations: Durations,
    pub(crate) own_tasks: OwnTasks,
    pub(crate) task_inputs: TaskInputs,
    pub(crate) uploads: Uploads,
}

impl Memory {
    /// `settle_time`: how long a create that was sent may still add its task to the history.
    pub(crate) fn new(settle_time: Duration) -> Self {
        Self {
            declarations: Cache::default(),
            durations: Cache::default(),
            own_tasks: OwnTasks { settle_time, tasks: Mutex::default() },
            task_inputs: Cache::default(),
            uploads: Cache::default(),
        }
    }
}

/// A lock that a panic of another thread does not poison. For data that is valid at every moment.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// How many entries a cache holds. A full one is emptied: an entry that is read again costs a request.
const MAX_ENTRIES: usize = 1_000;

/// How many durations of a model count.
const MAX_DURATIONS: usize = 20;

/// A bounded map whose entries expire.
#[derive(Debug)]
pub(crate) struct Cache<K, V, const MAX: usize = MAX_ENTRIES>(Mutex<HashMap<K, (Instant, V)>>);

/// The declared inputs of models, by identifier.
pub(crate) type Declarations = Cache<String, DeclaredInputs>;

/// The declared inputs of a model, by name.
pub(crate) type DeclaredInputs = Arc<BTreeMap<String, Descriptor>>;

/// The URLs of contents that were uploaded for runs.
pub(crate) type Uploads = Cache<UploadKey, String>;

/// The inputs of tasks that were read in search of a lost one; they never change.
pub(crate) type TaskInputs = Cache<TaskId, Fingerprint, MAX_TASKS>;

/// How long an upload is reused. Another program may delete it meanwhile.
pub(crate) const UPLOAD_TTL: Duration = Duration::from_secs(3_600);

/// What makes two uploads interchangeable: the same bytes, declared as the same type, for the same
/// readers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UploadKey {
    pub(crate) folder: UploadFolder,
    pub(crate) organization: Option<String>,
    pub(crate) mime: String,
    /// A hash of the content.
    pub(crate) content: u128,
}

impl<K, V, const MAX: usize> Default for Cache<K, V, MAX> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone, const MAX: usize> Cache<K, V, MAX> {
    /// The value, unless it is older than its time to live.
    pub(crate) fn get(&self, key: &K, ttl: Duration) -> Option<V> {
        let entries = lock(&self.0);
        let (inserted, value) = entries.get(key)?;
        (inserted.elapsed() < ttl).then(|| value.clone())
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        let mut entries = lock(&self.0);
        if entries.len() >= MAX && !entries.contains_key(&key) {
            entries.clear();
        }
        entries.insert(key, (Instant::now(), value));
    }

    /// Drops an entry that may be outdated.
    pub(crate) fn forget(&self, key: &K) {
        lock(&self.0).remove(key);
    }

    /// Drops every entry with this value.
    pub(crate) fn forget_value<W: ?Sized>(&self, value: &W)
    where
        V: PartialEq<W>,
    {
        lock(&self.0).retain(|_, (_, known)| *known != *value);
    }
}

/// How long tasks of each model took lately, newest last.
pub(crate) type Durations = Cache<ModelId, Vec<Duration>>;

impl Durations {
    pub(crate) fn add(&self, model: &ModelId, duration: Duration) {
        let mut samples = self.get(model, Duration::MAX).unwrap_or_default();
        samples.drain(..(samples.len() + 1).saturating_sub(MAX_DURATIONS));
        samples.push(duration);
        self.insert(model.clone(), samples);
    }

    /// The remembered durations of a model, shortest first.
    pub(crate) fn of(&self, model: &ModelId) -> Vec<Duration> {
        let mut samples = self.get(model, Duration::MAX).unwrap_or_default();
        samples.sort_unstable();
        samples
    }
}

/// How many tasks are remembered: each of them is about 200 bytes.
const MAX_TASKS: usize = 100_000;

/// For at least so long, a task in the history may be that of a create that ended in doubt.
const MIN_DOUBT: Duration = Duration::from_secs(60);

/// Two creates with this in common cannot be distinguished in the task history.
pub(crate) type CreateKey = (ModelId, Fingerprint);

/// Tasks that this client created, or is creating. A lost create must not adopt one of them as its own.
#[derive(Debug)]
pub(crate) struct OwnTasks {
    /// How long a create of unknown outcome may still add its task to the history.
    pub(crate) settle_time: Duration,
    tasks: Mutex<Tasks>,
}

#[derive(Debug, Default)]
struct Tasks {
    known: Latest<TaskId, ()>,
    prepared: Latest<RunKey, Arc<AsyncMutex<RunState>>>,
    creates: HashMap<CreateKey, Creates>,
}

/// A prepared run, by its identifier and its inputs.
pub(crate) type RunKey = (String, CreateKey);

/// What this client knows of the task of a prepared run.
#[derive(Debug)]
pub(crate) enum RunState {
    /// A create may have been sent, by this process or an earlier one.
    Unknown,
    /// No create was sent that may still add its task to the history.
    New,
    Created(TaskId),
}

/// The entries that came last.
#[derive(Debug)]
struct Latest<K, V> {
    entries: HashMap<K, V>,
    /// The keys, oldest first.
    order: VecDeque<K>,
}

impl<K, V> Default for Latest<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::default(), order: VecDeque::default() }
    }
}

impl<K: Clone + Eq + Hash, V> Latest<K, V> {
    /// Adds an entry whose key is not known; a full map drops its oldest one.
    fn insert(&mut self, key: K, value: V) {
        self.order.push_back(key.clone());
        self.entries.insert(key, value);
        if self.order.len() > MAX_TASKS
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }
}

/// The unsettled creates of one key.
#[derive(Debug, Default)]
struct Creates {
    open: u32,
    /// When a create last ended in doubt.
    in_doubt_since: Option<Instant>,
    gate: Gate,
}

/// Held shared by each create of a key, and alone by a search for a task to adopt: the task of a create
/// that waits for its response is in the history already, and nothing else says whose it is.
pub(crate) type Gate = Arc<RwLock<()>>;

impl Creates {
    fn is_in_use(&self, settle_time: Duration) -> bool {
        self.open > 0 || self.is_doubtful(settle_time) || Arc::strong_count(&self.gate) > 1
    }

    /// Whether a task in the history may be that of a create that ended in doubt.
    fn is_doubtful(&self, settle_time: Duration) -> bool {
        !self.doubt_left(settle_time.max(MIN_DOUBT)).is_zero()
    }

    /// What is left of this time since a create last ended in doubt.
    fn doubt_left(&self, time: Duration) -> Duration {
        self.in_doubt_since.map_or(Duration::ZERO, |since| time.saturating_sub(since.elapsed()))
    }
}

impl OwnTasks {
    /// Remembers the task; `false` if it was known.
    pub(crate) fn claim(&self, task: &TaskId) -> bool {
        let known = &mut lock(&self.tasks).known;
        let is_new = !known.entries.contains_key(task);
        if is_new {
            known.insert(task.clone(), ());
        }
        is_new
    }

    pub(crate) fn contains(&self, task: &TaskId) -> bool {
        lock(&self.tasks).known.entries.contains_key(task)
    }

    /// The state of a prepared run: this one if it is not known. Locked while its task is looked for or created.
    pub(crate) fn prepared_run(&self, key: RunKey, state: RunState) -> Arc<AsyncMutex<RunState>> {
        let prepared = &mut lock(&self.tasks).prepared;
        if let Some(known) = prepared.entries.get(&key) {
            return Arc::clone(known);
        }
        let run = Arc::new(AsyncMutex::new(state));
        prepared.insert(key, Arc::clone(&run));
        run
    }

    /// The gate of this key.
    pub(crate) fn gate(&self, key: &CreateKey) -> Gate {
        let tasks = &mut *lock(&self.tasks);
        Arc::clone(&tasks.creates.entry(key.clone()).or_default().gate)
    }

    /// How long a create of this key that ended in doubt may still appear in the history.
    pub(crate) fn doubt_left(&self, key: &CreateKey) -> Duration {
        let tasks = lock(&self.tasks);
        tasks.creates.get(key).map_or(Duration::ZERO, |creates| creates.doubt_left(self.settle_time))
    }

    /// Notes that a create is about to be sent.
    pub(crate) fn start_create(&self, key: CreateKey) -> PendingCreate<'_> {
        let tasks = &mut *lock(&self.tasks);
        tasks.creates.retain(|_, creates| creates.is_in_use(self.settle_time));
        tasks.creates.entry(key.clone()).or_default().open += 1;
        PendingCreate { own_tasks: self, key, is_settled: false }
    }
}

/// A create whose outcome is not known yet. Dropped unsettled, it leaves doubt behind.
pub(crate) struct PendingCreate<'a> {
    own_tasks: &'a OwnTasks,
    key: CreateKey,
    is_settled: bool,
}

impl PendingCreate<'_> {
    /// It has its task, or certainly has none.
    pub(crate) fn settle(mut self) {
        self.is_settled = true;
    }

    /// Whether a task in the history may be that of another create of this client with the same inputs.
    pub(crate) fn is_ambiguous(&self) -> bool {
        let tasks = lock(&self.own_tasks.tasks);
        let settle_time = self.own_tasks.settle_time;
        tasks
            .creates
            .get(&self.key)
            .is_some_and(|creates| creates.open > 1 || creates.is_doubtful(settle_time))
    }
}

impl Drop for PendingCreate<'_> {
    fn drop(&mut self) {
        let tasks = &mut *lock(&self.own_tasks.tasks);
        let Some(creates) = tasks.creates.get_mut(&self.key) else { return };
        creates.open = creates.open.saturating_sub(1);
        if !self.is_settled {
            creates.in_doubt_since = Some(Instant::now());
        }
    }
}

/// A fingerprint of inputs: equal for JSON that means the same, with numbers compared by value and objects
/// without regard to order or to members that are null. Comparable within this process.
pub(crate) type Fingerprint = u128;

/// The fingerprint of inputs.
pub(crate) fn fingerprint(value: &Value) -> Fingerprint {
    let mut hasher = hasher();
    hash(value, &mut hasher);
    hasher.finish128().as_u128()
}

fn hash(value: &Value, hasher: &mut impl Hasher) {
    match value {
        Value::Null => hasher.write_u8(0),
        Value::Bool(flag) => (1_u8, flag).hash(hasher),
        // By value: as floats, 2^53 and the number after it would be equal.
        Value::Number(number) => match number.to_string().parse::<Decimal>() {
            Ok(decimal) => (2_u8, decimal).hash(hasher),
            Err(_) => (3_u8, number.to_string()).hash(hasher),
        },
        Value::String(text) => (4_u8, text).hash(hasher),
        Value::Array(items) => {
            (5_u8, items.len()).hash(hasher);
            items.iter().for_each(|item| hash(item, hasher));
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().filter(|(_, value)| !value.is_null()).collect();
            members.sort_by_key(|(name, _)| *name);
            (6_u8, members.len()).hash(hasher);
            for (name, value) in members {
                name.hash(hasher);
                hash(value, hasher);
            }
        }
    }
}

/// A hasher of 128 bits with a key of this process, so that no one can prepare two inputs with one hash.
pub(crate) fn hasher() -> SipHasher13 {
    static KEYS: LazyLock<(u64, u64)> = LazyLock::new(|| {
        let random = RandomState::new();
        (random.hash_one(0), random.hash_one(1))
    });
    SipHasher13::new_with_keys(KEYS.0, KEYS.1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TTL: Duration = Duration::from_secs(300);

    #[tokio::test(start_paused = true)]
    async fn an_entry_is_known_until_its_time_to_live_has_passed_or_it_is_forgotten() {
        let cache: Cache<_, _> = Cache::default();
        assert_eq!(cache.get(&1, TTL), None);
        for key in 1..=3 {
            cache.insert(key, format!("value {key}"));
        }
        cache.forget(&2);
        cache.forget_value("value 3");
        tokio::time::advance(TTL - Duration::from_secs(1)).await;
        assert_eq!(cache.get(&1, TTL).as_deref(), Some("value 1"));
        assert_eq!(cache.get(&2, TTL).or(cache.get(&3, TTL)), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(cache.get(&1, TTL), None);
    }

    #[test]
    fn a_cache_is_bounded() {
        let cache: Cache<_, _> = Cache::default();
        for key in 0..=2 * MAX_ENTRIES {
            cache.insert(key, ());
        }
        assert!(lock(&cache.0).len() <= MAX_ENTRIES);
    }

    #[test]
    fn the_latest_durations_of_a_model_are_remembered_in_order_of_length() {
        let durations = Durations::default();
        let model = ModelId::from("m");
        for seconds in (1..=25).rev() {
            durations.add(&model, Duration::from_secs(seconds));
        }
        let expected: Vec<_> = (1..=20).map(Duration::from_secs).collect();
        assert_eq!(durations.of(&model), expected);
        assert!(durations.of(&ModelId::from("n")).is_empty());
    }

    const SETTLE_TIME: Duration = Duration::from_secs(60);

    fn own_tasks() -> OwnTasks {
        Memory::new(SETTLE_TIME).own_tasks
    }

    fn key(model: &str, angle: i32) -> CreateKey {
        let Ok(model) = model.parse();
        (model, fingerprint(&json!({ "angle": angle })))
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_create_of_the_same_inputs_makes_another_ambiguous() {
        let own = own_tasks();
        let first = own.start_create(key("m", 1));
        let others = [own.start_create(key("m", 2)), own.start_create(key("n", 1))];
        assert!(!first.is_ambiguous());
        let second = own.start_create(key("m", 1));
        assert!(first.is_ambiguous() && second.is_ambiguous());
        second.settle();
        assert!(!first.is_ambiguous(), "the other one has its task, which is known");
        drop(own.start_create(key("m", 1)));
        assert!(first.is_ambiguous(), "the other one may have left a task behind");
        assert!(others.iter().all(|other| !other.is_ambiguous()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_create_that_starts_after_one_of_unknown_outcome_is_ambiguous_for_a_while() {
        let own = own_tasks();
        drop(own.start_create(key("m", 1)));
        let later = own.start_create(key("m", 1));
        assert!(later.is_ambiguous());
        tokio::time::advance(SETTLE_TIME).await;
        assert!(!later.is_ambiguous());
    }

    #[tokio::test(start_paused = true)]
    async fn a_create_that_is_settled_or_long_ago_takes_no_memory() {
        let own = own_tasks();
        for angle in 1..=3 {
            own.start_create(key("m", angle)).settle();
        }
        drop(own.start_create(key("m", 4)));
        own.start_create(key("m", 5)).settle();
        assert_eq!(lock(&own.tasks).creates.len(), 2, "the last one, and the one in doubt");
        tokio::time::advance(SETTLE_TIME).await;
        own.start_create(key("m", 6)).settle();
        assert_eq!(lock(&own.tasks).creates.len(), 1, "the last one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_gate_that_is_in_use_is_that_of_every_later_create_of_its_key() {
        let own = own_tasks();
        let gate = own.gate(&key("m", 1));
        own.start_create(key("m", 2)).settle();
        assert!(Arc::ptr_eq(&gate, &own.gate(&key("m", 1))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_create_of_unknown_outcome_may_appear_in_the_history_for_the_settle_time() {
        let own = own_tasks();
        drop(own.start_create(key("m", 1)));
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(own.doubt_left(&key("m", 1)), Duration::from_secs(40));
        assert_eq!(own.doubt_left(&key("m", 2)), Duration::ZERO);
        tokio::time::advance(SETTLE_TIME).await;
        assert_eq!(own.doubt_left(&key("m", 1)), Duration::ZERO);
    }

    #[test]
    fn fingerprints_have_a_key_that_no_one_knows() {
        assert_ne!(hasher().finish(), SipHasher13::new().finish());
        assert_eq!(hasher().finish(), hasher().finish());
    }

    #[test]
    fn a_task_is_claimed_once_and_the_memory_is_bounded() {
        let own = own_tasks();
        let id = |number: usize| TaskId::from(number.to_string());
        assert!(own.claim(&id(0)) && !own.claim(&id(0)) && own.contains(&id(0)));
        for number in 1..MAX_TASKS {
            own.claim(&id(number));
        }
        assert!(own.contains(&id(0)));
        own.claim(&id(MAX_TASKS));
        assert!(!own.contains(&id(0)) && own.contains(&id(MAX_TASKS)));
    }

    fn same(one: &Value, other: &Value) -> bool {
        fingerprint(one) == fingerprint(other)
    }

    #[test]
    fn spelling_order_and_nulls_do_not_matter_and_everything_else_does() {
        let sent = json!({"a": 1, "b": ["x", {"c": 0.5}]});
        for stored in [
            json!({"b": ["x", {"c": 0.5, "d": null}], "a": 1.0}),
            json!({"a": 1, "b": ["x", {"c": 5e-1}], "e": null}),
        ] {
            assert!(same(&sent, &stored), "{stored}");
        }
        for stored in [
            json!({"a": "1", "b": ["x", {"c": 0.5}]}),
            json!({"a": 1, "b": ["x"]}),
            json!({"a": 1.0000000000000002, "b": ["x", {"c": 0.5}]}),
            json!({"a": 1}),
            json!(null),
        ] {
            assert!(!same(&sent, &stored), "{stored}");
        }
    }

    #[test]
    fn whole_numbers_that_are_equal_as_floats_are_different() {
        let one = json!({"seed": 9_007_199_254_740_993_u64});
        let other = json!({"seed": 9_007_199_254_740_992_u64});
        assert!(same(&one, &one) && !same(&one, &other));
        assert!(same(&other, &json!({"seed": 9_007_199_254_740_992.0})));
    }

    mod properties {
        use proptest::collection::{btree_map, vec};
        use proptest::prelude::*;

        use super::*;

        fn json() -> impl Strategy<Value = Value> {
            let scalar = prop_oneof![
                Just(Value::Null),
                any::<bool>().prop_map(Value::from),
                any::<i64>().prop_map(Value::from),
                (-2_i32..3).prop_map(|number| Value::from(f64::from(number))),
                any::<f64>().prop_map(Value::from),
                "[a-c]?".prop_map(Value::from),
            ];
            scalar.prop_recursive(3, 12, 3, |inner| {
                prop_oneof![
                    vec(inner.clone(), 0..3).prop_map(Value::from),
                    btree_map("[a-c]", inner, 0..3)
                        .prop_map(|members| Value::Object(members.into_iter().collect())),
                ]
            })
        }

        proptest! {
            #[test]
            fn an_input_is_equal_to_itself_written_and_read(one in json()) {
                let read: Value = serde_json::from_str(&one.to_string()).unwrap_or_default();
                prop_assert!(same(&one, &read), "{} was read as {}", one, read);
            }

            #[test]
            fn a_member_that_is_null_changes_nothing_and_any_other_does(mut one in json(), name in "[d-f]", value in json()) {
                let before = one.clone();
                if let Value::Object(members) = &mut one {
                    let is_null = value.is_null();
                    members.insert(name, value);
                    prop_assert_eq!(same(&before, &one), is_null);
                }
            }
        }
    }
}
