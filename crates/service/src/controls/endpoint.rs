//! Endpoints of the service, for the validation of faults: a fault that matches no endpoint would never take effect.

use std::collections::BTreeSet;

use inferstore_api::operations;

use super::{Fault, Operation, Side};
use crate::accounts::BUCKET_PREFIX;
use crate::api::ROOT;
use crate::nodes::OUTPUTS;

#[derive(Clone, Copy)]
struct Endpoint {
    side: Side,
    method: &'static str,
    /// Path in the API document. The object store has arbitrary paths below its buckets.
    path: &'static str,
    /// None for a `HEAD` request, which the API document does not list beside its `GET`.
    operation: Option<Operation>,
}

/// Criterion of a fault: its name, a test whether an endpoint satisfies it, and the endpoint's value for messages.
type Criterion = (&'static str, fn(&Fault, &Endpoint) -> bool, fn(&Endpoint) -> &'static str);

const CRITERIA: [Criterion; 3] = [
    ("side", |fault, one| fault.side.is_none_or(|wanted| one.side == wanted), |one| one.side.word()),
    (
        "method",
        |fault, one| fault.method.as_ref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(one.method)),
        |one| one.method,
    ),
    ("path", |fault, one| fault.path.as_ref().is_none_or(|wanted| one.has_path(wanted)), |one| one.path),
];

pub(super) fn never_met(fault: &Fault) -> Option<String> {
    let is_odd =
        |path: &String| !path.starts_with('/') || path.contains(['?', '#']) || path.starts_with(ROOT);
    if fault.path.as_ref().is_some_and(is_odd) {
        let rule = "path must begin with a slash and have neither";
        return Some(format!("{rule} {ROOT} nor a query, such as /api-key/balance"));
    }
    let mut fitting: Vec<Endpoint> = endpoints()
        .filter(|one| fault.operation.is_none_or(|wanted| one.operation == Some(wanted)))
        .collect();
    for (name, has, value) in CRITERIA {
        let known: BTreeSet<&str> = fitting.iter().map(value).collect();
        fitting.retain(|one| has(fault, one));
        if fitting.is_empty() {
            let known: Vec<&str> = known.into_iter().collect();
            return Some(format!("no request would meet it: {name} must be one of {}", known.join(", ")));
        }
    }
    None
}

fn endpoints() -> impl Iterator<Item = Endpoint> {
    let of_api = operations::ALL.iter().flat_map(|it| {
        let one = at_the_api(it.method, it.path, Some(Operation::from(**it)));
        // Every route with a GET accepts a HEAD request.
        let head = (it.method == "GET").then_some(at_the_api("HEAD", it.path, None));
        [Some(one), head].into_iter().flatten()
    });
    let of_document = ["GET", "HEAD"].map(|method| at_the_api(method, "/openapi.yaml", None));
    let of_objects = ["GET", "HEAD", "PUT", "POST"].map(|method| Endpoint {
        side: Side::Objects,
        method,
        path: "/files-… or /outputs/… as it is sent",
        operation: Operation::of_objects(method),
    });
    of_api.chain(of_document).chain(of_objects)
}

const fn at_the_api(method: &'static str, path: &'static str, operation: Option<Operation>) -> Endpoint {
    Endpoint { side: Side::Api, method, path, operation }
}

impl Endpoint {
    fn has_path(&self, path: &str) -> bool {
        match self.side {
            Side::Api => is_path_of(self.path, path),
            Side::Objects => {
                let bucket = path.split('/').nth(1).unwrap_or_default();
                bucket == OUTPUTS || bucket.starts_with(BUCKET_PREFIX)
            }
        }
    }
}

fn is_path_of(pattern: &str, path: &str) -> bool {
    let fits = |(wanted, sent): (&str, &str)| {
        // Clients escape braces, so a segment in braces is a template parameter under another name.
        wanted == sent || wanted.starts_with('{') && !sent.is_empty() && !sent.starts_with('{')
    };
    pattern.split('/').count() == path.split('/').count() && pattern.split('/').zip(path.split('/')).all(fits)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn on(value: Value) -> Result<Option<String>, serde_json::Error> {
        let mut fault = value;
        fault["effect"] = "hang_up".into();
        Ok(never_met(&serde_json::from_value(fault)?))
    }

    #[test]
    fn a_fault_that_no_request_meets_is_refused_with_what_fits_instead() -> Result<(), serde_json::Error> {
        let spelling = "neither /api/v1 nor a query, such as /api-key/balance";
        let of_balance = "path must be one of /api-key/balance";
        for (fault, why) in [
            (json!({ "path": "/nope" }), "path must be one of /api-key/balance, /api-key/keys, "),
            (json!({ "path": "/api-key/model/{model_id}" }), "/api-key/model/{id}, "),
            (json!({ "path": "/api-key/model/a/b" }), "path must be one of"),
            (json!({ "path": "/api-key/balance/" }), "path must be one of"),
            (json!({ "path": "api-key/balance" }), spelling),
            (json!({ "path": "/api/v1/api-key/balance" }), spelling),
            (json!({ "path": "/api-key/balance?x=1" }), spelling),
            (
                json!({ "path": "/nope", "side": "objects" }),
                "path must be one of /files-… or /outputs/… as it is sent",
            ),
            (json!({ "path": "/nope", "operation": "getBalance" }), of_balance),
            (json!({ "path": "/api-key/balance", "method": "POST" }), "/api-key/model/list"),
            (json!({ "method": "FOO" }), "method must be one of DELETE, GET, HEAD, POST, PUT"),
            (json!({ "method": "POST", "operation": "getTask" }), "method must be one of GET"),
            (json!({ "side": "api", "operation": "getObject" }), "side must be one of objects"),
            (json!({ "side": "api", "method": "PUT" }), "method must be one of DELETE, GET, HEAD, POST"),
        ] {
            let refusal = on(fault.clone())?.unwrap_or_default();
            assert!(refusal.contains(why), "{fault}: {refusal}");
        }
        Ok(())
    }

    #[test]
    fn a_fault_that_a_request_meets_is_none_of_these() -> Result<(), serde_json::Error> {
        for operation in Operation::all() {
            assert_eq!(never_met(&Fault::hang_up().on(operation)), None, "{operation:?}");
        }
        for operation in operations::ALL {
            assert_eq!(never_met(&Fault::hang_up().on_path(operation.method, operation.path)), None);
        }
        for fault in [
            json!({}),
            json!({ "side": "objects", "method": "head" }),
            json!({ "method": "HEAD", "path": "/api-key/balance" }),
            json!({ "path": "/api-key/model/haze-removal/serving" }),
            json!({ "path": "/openapi.yaml" }),
            json!({ "path": "/files-abc/token/samples/a.txt", "operation": "getObject" }),
            json!({ "path": "/files-abc", "method": "POST" }),
            json!({ "path": "/outputs/token/task/1/output.png" }),
        ] {
            assert_eq!(on(fault.clone())?, None, "{fault}");
        }
        Ok(())
    }
}
