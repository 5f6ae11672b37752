//! Records, parsed from rows of any engine. Rows use SQLite's value types; other engines convert to them.

use std::sync::Arc;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};

use super::refund::Charged;
use super::values::Json;
use crate::accounts::{Account, KeyRules, Scope, StoredKey};
use crate::catalog::{Format, Model, ModelSummary, Published, Version};
use crate::clock::Moment;
use crate::files::{Object, StorageUse, StoredFile, Target, Usage};
use crate::ledger::{Meter, Purses, Split};
use crate::metrics::Totals;
use crate::operator::{
    Action, KeyOverview, ModelOverview, MovementOverview, NodeOverview, TaskDetail, TaskOverview,
};
use crate::queue::{KeyedCreate, Lease, LeaseState, ModelLoad, Serving, Status, Task, TaskSummary};
use crate::registry::{KnownNode, NodeKey, SeenSlot};

pub(super) trait Row {
    fn value(&self, index: usize) -> FromSqlResult<ValueRef<'_>>;
}

pub(super) type Read<T> = fn(&dyn Row) -> FromSqlResult<T>;

impl dyn Row + '_ {
    pub(super) fn get<T: FromSql>(&self, index: usize) -> FromSqlResult<T> {
        let read = self.value(index).and_then(T::column_result);
        read.map_err(|cause| FromSqlError::Other(format!("column {index}: {cause}").into()))
    }
}

pub(super) struct RowFrom<'a> {
    pub(super) first: usize,
    pub(super) row: &'a dyn Row,
}

impl Row for RowFrom<'_> {
    fn value(&self, index: usize) -> FromSqlResult<ValueRef<'_>> {
        self.row.value(self.first + index)
    }
}

pub(super) fn column<T: FromSql>(row: &dyn Row) -> FromSqlResult<T> {
    row.get(0)
}

pub(super) fn pair<A: FromSql, B: FromSql>(row: &dyn Row) -> FromSqlResult<(A, B)> {
    Ok((row.get(0)?, row.get(1)?))
}

pub(super) fn triple<A: FromSql, B: FromSql, C: FromSql>(row: &dyn Row) -> FromSqlResult<(A, B, C)> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

/// Declares functions that read a record whose fields are the columns of a row in this order.
macro_rules! records {
    ($($name:ident -> $type:ident: $($field:ident)*;)*) => { $(
        pub(super) fn $name(row: &dyn Row) -> FromSqlResult<$type> {
            let mut columns = 0..;
            let mut next = || columns.next().unwrap_or(usize::MAX);
            Ok($type { $($field: row.get(next())?),* })
        }
    )* };
}

records! {
    account -> Account: id username scope wallet_address bucket state;
    target -> Target: id owner payer bucket folder key mime size expires_at is_void;
    object -> Object: bucket key blob mime size etag created_at;
    stored_file -> StoredFile: id bucket folder key mime size created_at;
    usage -> Usage: files bytes;
    storage_use -> StorageUse: quota stored promised;
    totals -> Totals: stored_bytes held unused_targets;
    model_summary -> ModelSummary: id name username description is_official is_verified visibility price;
    task -> Task: id status cost message input input_format output_format output error created_at updated_at attempt;
    task_summary -> TaskSummary: task_id status model_id cost created_at updated_at;
    model_load -> ModelLoad: model queued computing waits_since nodes;
    keyed_create -> KeyedCreate: task request;
    lease -> Lease: task model input input_format output_format attempt releases traceparent account created_at;
    serving -> Serving: serving consumers;
    split -> Split: free balance;
    purses -> Purses: balance free held debt earnings revenue;
    meter -> Meter: stored_bytes byte_seconds gib_seconds metered_at;
    model_overview -> ModelOverview: model publisher name price visibility is_official is_verified is_playground state
        created_at updated_at;
    action -> Action: at request body status;
    movement_overview -> MovementOverview: at reason amount from to reference note;
    task_overview -> TaskOverview: task account model status price cost message node attempt created_at updated_at
        is_refunded;
}

pub(super) fn kept_key(row: &dyn Row) -> FromSqlResult<StoredKey> {
    Ok(StoredKey { id: row.get(0)?, hash: row.get(1)?, rules: KeyRules::default() })
}

fn key_rules(row: &dyn Row) -> FromSqlResult<KeyRules> {
    let models: Option<Json<_>> = row.get(3)?;
    let models = models.map(|models| models.0);
    Ok(KeyRules { name: row.get(0)?, expires_at: row.get(1)?, daily_limit: row.get(2)?, models })
}

pub(super) fn key_overview(row: &dyn Row) -> FromSqlResult<KeyOverview> {
    let KeyRules { name, expires_at, daily_limit, models } = key_rules(&RowFrom { first: 3, row })?;
    let created_at = row.get(1)?;
    Ok(KeyOverview {
        key: row.get(0)?,
        name,
        created_at,
        expires_at,
        daily_limit,
        models,
        revoked_at: row.get(2)?,
    })
}

pub(super) fn key_of_account(row: &dyn Row) -> FromSqlResult<(StoredKey, Account)> {
    let rules = key_rules(&RowFrom { first: 8, row })?;
    Ok((StoredKey { rules, ..kept_key(row)? }, account(&RowFrom { first: 2, row })?))
}

pub(super) const fn member_columns(scope: Scope) -> (&'static str, &'static str) {
    match scope {
        Scope::Organization => ("person", "organization"),
        Scope::Personal => ("organization", "person"),
    }
}

pub(super) fn node_overview(row: &dyn Row) -> FromSqlResult<NodeOverview> {
    let models: Option<Json<_>> = row.get(3)?;
    Ok(NodeOverview {
        key: row.get(0)?,
        node: row.get(1)?,
        seen_at: row.get(2)?,
        models: models.map(|models| models.0),
        created_at: row.get(4)?,
        revoked_at: row.get(5)?,
    })
}

pub(super) fn known_node(rows: Vec<(String, Moment, Moment)>) -> Option<KnownNode> {
    let seen_at = rows.first()?.2;
    Some(KnownNode {
        models: rows.into_iter().map(|(model, seen_at, _)| (model, seen_at)).collect(),
        seen_at,
    })
}

pub(super) fn seen_models(slots: &[SeenSlot]) -> Vec<(&str, &str, &str)> {
    let mut seen = Vec::new();
    for (node, models) in slots {
        let slot = models.iter().min().map_or("", String::as_str);
        seen.extend(models.iter().map(|model| (&**node, &**model, slot)));
    }
    seen
}

pub(super) fn lease_state(row: &dyn Row) -> FromSqlResult<LeaseState> {
    Ok(match row.get(0)? {
        Status::Computing => {
            let (output_format, model) = (row.get(1)?, row.get(2)?);
            LeaseState::Running { output_format, model, leased_at: row.get(3)?, traceparent: row.get(4)? }
        }
        _ => LeaseState::Ended,
    })
}

pub(super) fn node_key(row: &dyn Row) -> FromSqlResult<NodeKey> {
    let models: Option<Json<_>> = row.get(3)?;
    Ok(NodeKey { kept: kept_key(row)?, name: row.get(2)?, models: models.map(|models| models.0) })
}

pub(super) fn published(row: &dyn Row) -> FromSqlResult<Arc<Published>> {
    let json = |index| row.get(index).map(|json: Json| json.0);
    let model = Model {
        summary: model_summary(row)?,
        owner: row.get(8)?,
        metadata: json(9)?,
        created_at: row.get(10)?,
        updated_at: row.get(11)?,
    };
    let version = Version {
        id: row.get(12)?,
        commit_hash: row.get(13)?,
        input_format: json(14)?,
        output_format: json(15)?,
    };
    let inputs = Format::kept(version.input_format.get()).map_err(FromSqlError::other)?;
    Ok(Arc::new(Published { model, version, inputs, state: row.get(16)? }))
}

pub(super) fn task_detail(row: &dyn Row) -> FromSqlResult<TaskDetail> {
    let json = |index| row.get(index).map(|json: Option<Json>| json.map(|json| json.0));
    let input: Json = row.get(12)?;
    Ok(TaskDetail { overview: task_overview(row)?, input: input.0, output: json(13)?, error: json(14)? })
}

pub(super) fn charged(row: &dyn Row) -> FromSqlResult<Charged> {
    Ok(Charged {
        account: row.get(0)?,
        username: row.get(1)?,
        publisher: row.get(2)?,
        status: row.get(3)?,
        price: split(&RowFrom { first: 4, row })?,
    })
}
