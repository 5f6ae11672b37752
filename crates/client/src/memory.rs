//! Bounded memory of a client, within this process: declared inputs, durations of models, and created tasks.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use inferstore_api::Decimal;
use inferstore_api::types::{Descriptor, ModelId, TaskId};
use parking_lot::Mutex;
use serde_json::Value;
use siphasher::sip128::{Hasher128, SipHasher13, SipHasher24};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

/// Maximum number of remembered tasks, at about 200 bytes each.
const MAX_TASKS: usize = 100_000;

const MAX_DURATIONS: usize = 20;

/// Minimum time for which a task in the history may belong to a create of unknown outcome.
const MIN_DOUBT: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) declarations: Cache<ModelId, DeclaredInputs, 1_000>,
    durations: Cache<ModelId, Vec<Duration>, 1_000>,
    /// Inputs of tasks that a search has read; they never change.
    pub(crate) task_inputs: Cache<TaskId, Fingerprint, MAX_TASKS>,
    /// Tasks that this client created, adopted or claimed: a lost create must not adopt one of them.
    known: Cache<TaskId, (), MAX_TASKS>,
    prepared: Cache<RunKey, Arc<AsyncMutex<RunState>>, MAX_TASKS>,
    creates: Mutex<HashMap<InputsKey, Creates>>,
    /// Time for which a create of unknown outcome may still add its task to the history.
    pub(crate) settle_time: Duration,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Uncompared<T>(pub(crate) T);

impl<T> PartialEq for Uncompared<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

pub(crate) type DeclaredInputs = Arc<BTreeMap<String, Descriptor>>;

/// Key of a create: creates with equal keys cannot be distinguished in the task history.
pub(crate) type InputsKey = (ModelId, Fingerprint);

/// Key of a prepared run: its identifier and its inputs.
pub(crate) type RunKey = (String, InputsKey);

#[derive(Debug)]
pub(crate) enum RunState {
    /// This process or an earlier one may have sent a create.
    Unknown,
    /// No create was sent that may still add its task to the history.
    New,
    Created(TaskId),
}

#[derive(Debug, Default)]
struct Creates {
    open: u32,
    in_doubt_since: Option<Instant>,
}

impl Creates {
    fn doubt_left(&self, time: Duration) -> Duration {
        self.in_doubt_since.map_or(Duration::ZERO, |since| time.saturating_sub(since.elapsed()))
    }
}

impl Memory {
    pub(crate) fn new(settle_time: Duration) -> Self {
        Self { settle_time, ..Self::default() }
    }

    pub(crate) fn add_duration(&self, model: &ModelId, duration: Duration) {
        let mut samples = self.durations.get(model, Duration::MAX).unwrap_or_default();
        samples.drain(..(samples.len() + 1).saturating_sub(MAX_DURATIONS));
        samples.push(duration);
        self.durations.insert(model.clone(), samples);
    }

    pub(crate) fn durations_of(&self, model: &ModelId) -> Vec<Duration> {
        let mut samples = self.durations.get(model, Duration::MAX).unwrap_or_default();
        samples.sort_unstable();
        samples
    }

    /// Remembers the task; returns false if it was known.
    pub(crate) fn claim(&self, task: &TaskId) -> bool {
        self.known.get_or_insert(task, ()).is_none()
    }

    pub(crate) fn is_known(&self, task: &TaskId) -> bool {
        self.known.get(task, Duration::MAX).is_some()
    }

    /// Returns the state of a prepared run, or inserts this one. Locked while its task is searched or created.
    pub(crate) fn prepared_run(&self, key: &RunKey, state: RunState) -> Arc<AsyncMutex<RunState>> {
        let run = Arc::new(AsyncMutex::new(state));
        self.prepared.get_or_insert(key, Arc::clone(&run)).unwrap_or(run)
    }

    /// Returns the time for which a pending create, or one of unknown outcome, may still appear in the history.
    pub(crate) fn doubt_left(&self, key: &InputsKey) -> Duration {
        let creates = self.creates.lock();
        creates.get(key).map_or(Duration::ZERO, |creates| match creates.open {
            0 => creates.doubt_left(self.settle_time),
            _ => self.settle_time,
        })
    }

    /// Returns true if a task in the history may be of another create with these inputs; `own` are the caller's.
    pub(crate) fn is_ambiguous(&self, key: &InputsKey, own: u32) -> bool {
        let is_pending = |creates: &Creates| !creates.doubt_left(self.settle_time.max(MIN_DOUBT)).is_zero();
        let creates = self.creates.lock();
        creates.get(key).is_some_and(|creates| creates.open > own || own > 0 && is_pending(creates))
    }

    pub(crate) fn start_create<'a>(&'a self, key: &'a InputsKey) -> PendingCreate<'a> {
        let creates = &mut *self.creates.lock();
        let longest = self.settle_time.max(MIN_DOUBT);
        creates.retain(|_, creates| creates.open > 0 || !creates.doubt_left(longest).is_zero());
        creates.entry(key.clone()).or_default().open += 1;
        PendingCreate { memory: self, key, is_finished: false }
    }
}

/// Pending create. If it is dropped before `finish`, its outcome counts as unknown.
pub(crate) struct PendingCreate<'a> {
    memory: &'a Memory,
    key: &'a InputsKey,
    is_finished: bool,
}

impl PendingCreate<'_> {
    /// Records that the create has its task, or certainly has none.
    pub(crate) fn finish(mut self) {
        self.is_finished = true;
    }

    pub(crate) fn is_ambiguous(&self) -> bool {
        self.memory.is_ambiguous(self.key, 1)
    }
}

impl Drop for PendingCreate<'_> {
    fn drop(&mut self) {
        let mut creates = self.memory.creates.lock();
        let creates = creates.entry(self.key.clone()).or_default();
        debug_assert!(creates.open > 0, "a create ends that was not pending");
        creates.open -= 1;
        if !self.is_finished {
            creates.in_doubt_since = Some(Instant::now());
        }
    }
}

/// Expiring map in two generations: when the new one is full, it replaces the old one.
#[derive(Debug)]
pub(crate) struct Cache<K, V, const MAX: usize>(Mutex<[HashMap<K, (Instant, V)>; 2]>);

impl<K, V, const MAX: usize> Default for Cache<K, V, MAX> {
    fn default() -> Self {
        Self(Mutex::new([HashMap::new(), HashMap::new()]))
    }
}

impl<K: Clone + Eq + Hash, V: Clone, const MAX: usize> Cache<K, V, MAX> {
    pub(crate) fn get(&self, key: &K, ttl: Duration) -> Option<V> {
        let generations = self.0.lock();
        let (inserted, value) = generations.iter().find_map(|entries| entries.get(key))?;
        (inserted.elapsed() < ttl).then(|| value.clone())
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        self.forget(&key);
        self.get_or_insert(&key, value);
    }

    fn get_or_insert(&self, key: &K, value: V) -> Option<V> {
        let [new, old] = &mut *self.0.lock();
        if let Some((_, value)) = new.get(key).or_else(|| old.get(key)) {
            return Some(value.clone());
        }
        if new.len() >= MAX {
            *old = std::mem::take(new);
        }
        new.insert(key.clone(), (Instant::now(), value));
        debug_assert!(new.len() <= MAX, "a cache holds more entries than its limit");
        None
    }

    pub(crate) fn forget(&self, key: &K) {
        self.0.lock().iter_mut().for_each(|entries| _ = entries.remove(key));
    }
}

/// Fingerprint of inputs: equal for JSON with equal meaning. Numbers are compared by value, objects
/// regardless of order and of null members. Valid within this process.
pub(crate) type Fingerprint = u128;

pub(crate) fn fingerprint(value: &Value) -> Fingerprint {
    let mut hasher = hasher();
    hash(value, &mut hasher);
    hasher.finish128().as_u128()
}

fn hash(value: &Value, hasher: &mut impl Hasher) {
    match value {
        Value::Null => hasher.write_u8(0),
        Value::Bool(flag) => (1_u8, flag).hash(hasher),
        // Exact values: as floats, 2^53 and the next integer would be equal.
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

/// Returns the hasher for stored names, keyed by the API key. SipHash-2-4 with a secret key is a pseudorandom
/// function: a stored name reveals nothing about the API key.
pub(crate) fn name_hasher(api_key: &str) -> SipHasher24 {
    let mut hasher = SipHasher24::new();
    hasher.write(b"inferstore: names of stored contents\n");
    hasher.write(api_key.as_bytes());
    let hash = hasher.finish128();
    SipHasher24::new_with_keys(hash.h1, hash.h2)
}

/// Returns a 128-bit hasher keyed per process, so that nobody can construct a collision.
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
        let cache: Cache<_, _, 10> = Cache::default();
        assert_eq!(cache.get(&1, TTL), None);
        for key in 1..=2 {
            cache.insert(key, "old".to_owned());
            cache.insert(key, format!("value {key}"));
        }
        cache.forget(&2);
        tokio::time::advance(TTL - Duration::from_secs(1)).await;
        assert_eq!(cache.get(&1, TTL).as_deref(), Some("value 1"));
        assert_eq!(cache.get(&2, TTL), None);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(cache.get(&1, TTL), None);
    }

    #[test]
    fn a_cache_is_bounded_and_keeps_what_came_last() {
        let cache: Cache<_, _, 10> = Cache::default();
        for key in 0..35 {
            cache.insert(key, ());
        }
        let held = |key: &i32| cache.get(key, TTL).is_some();
        assert_eq!((0..35).filter(held).collect::<Vec<_>>(), (20..35).collect::<Vec<_>>());
    }

    #[test]
    fn the_latest_durations_of_a_model_are_remembered_in_order_of_length() {
        let memory = memory();
        let model = ModelId::from("m");
        for seconds in (1..=25).rev() {
            memory.add_duration(&model, Duration::from_secs(seconds));
        }
        let expected: Vec<_> = (1..=20).map(Duration::from_secs).collect();
        assert_eq!(memory.durations_of(&model), expected);
        assert!(memory.durations_of(&ModelId::from("n")).is_empty());
    }

    const SETTLE_TIME: Duration = Duration::from_secs(60);

    fn memory() -> Memory {
        Memory::new(SETTLE_TIME)
    }

    fn key(model: &str, angle: i32) -> InputsKey {
        let Ok(model) = model.parse();
        (model, fingerprint(&json!({ "angle": angle })))
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_create_of_the_same_inputs_makes_another_ambiguous() {
        let own = memory();
        let keys = [key("m", 1), key("m", 2), key("n", 1)];
        let first = own.start_create(&keys[0]);
        let others = [own.start_create(&keys[1]), own.start_create(&keys[2])];
        assert!(!first.is_ambiguous() && own.is_ambiguous(&keys[0], 0));
        let second = own.start_create(&keys[0]);
        assert!(first.is_ambiguous() && second.is_ambiguous());
        second.finish();
        assert!(!first.is_ambiguous(), "the other one has its task, which is known");
        drop(own.start_create(&keys[0]));
        assert!(first.is_ambiguous(), "the other one may have left a task behind");
        assert!(others.iter().all(|other| !other.is_ambiguous()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_create_right_after_one_in_doubt_is_ambiguous_for_a_while() {
        let own = memory();
        let key = key("m", 1);
        drop(own.start_create(&key));
        let later = own.start_create(&key);
        assert!(later.is_ambiguous());
        tokio::time::advance(SETTLE_TIME).await;
        assert!(!later.is_ambiguous());
    }

    #[tokio::test(start_paused = true)]
    async fn a_create_that_is_finished_or_long_ago_takes_no_memory() {
        let own = memory();
        for angle in 1..=3 {
            own.start_create(&key("m", angle)).finish();
        }
        drop(own.start_create(&key("m", 4)));
        own.start_create(&key("m", 5)).finish();
        assert_eq!(own.creates.lock().len(), 2, "the last one, and the one in doubt");
        tokio::time::advance(SETTLE_TIME).await;
        own.start_create(&key("m", 6)).finish();
        assert_eq!(own.creates.lock().len(), 1, "the last one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_create_in_doubt_may_appear_in_the_history_for_the_settle_time() {
        let own = memory();
        let key = [key("m", 1), key("m", 2)];
        let open = own.start_create(&key[0]);
        tokio::time::advance(SETTLE_TIME).await;
        assert_eq!(own.doubt_left(&key[0]), SETTLE_TIME, "it is under way");
        drop(open);
        tokio::time::advance(Duration::from_secs(20)).await;
        assert_eq!(own.doubt_left(&key[0]), Duration::from_secs(40));
        assert_eq!(own.doubt_left(&key[1]), Duration::ZERO);
        tokio::time::advance(SETTLE_TIME).await;
        assert_eq!(own.doubt_left(&key[0]), Duration::ZERO);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a create ends that was not pending")]
    fn a_create_that_ends_twice_is_a_defect() {
        let own = memory();
        let key = key("m", 1);
        own.start_create(&key).finish();
        drop(PendingCreate { memory: &own, key: &key, is_finished: true });
    }

    #[test]
    fn a_task_is_claimed_once() {
        let own = memory();
        let id = TaskId::from("task-1");
        assert!(!own.is_known(&id) && own.claim(&id) && !own.claim(&id) && own.is_known(&id));
    }

    #[test]
    fn fingerprints_have_a_key_that_no_one_knows() {
        assert_ne!(hasher().finish(), SipHasher13::new().finish());
        assert_eq!(hasher().finish(), hasher().finish());
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
