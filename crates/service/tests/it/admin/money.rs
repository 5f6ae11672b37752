//! Credits, debits and movements, as a payment program uses them.

use serde_json::{Value, json};

use super::support::{Bench, TestResult};

#[tokio::test]
async fn a_payment_that_is_sent_again_is_credited_once() -> TestResult {
    let mut bench = Bench::start().await?;
    let payment = json!({"paid": "25.5", "reference": "invoice 17"}).to_string();
    for is_repeated in [false, true] {
        let credited =
            bench.admin.call("POST", &["accounts", "demo", "credits"], Some(payment.clone())).await?;
        assert_eq!(credited["is_repeated"], is_repeated, "{credited}");
    }
    assert_eq!(bench.caller.get("/api-key/balance").await?["balance"], "125.5");
    let other = json!({"paid": "2.55", "reference": "invoice 17"}).to_string();
    let refused = bench.admin.call("POST", &["accounts", "demo", "credits"], Some(other)).await;
    let refused = refused.err().ok_or("another amount is refused")?;
    assert!(refused.is_refused() && refused.to_string().contains("another amount"), "{refused}");
    Ok(())
}

#[tokio::test]
async fn a_wrong_credit_is_taken_back_with_a_note() -> TestResult {
    let mut bench = Bench::start().await?;
    let mut post = async |kind: &str, body: Value| {
        bench.admin.call("POST", &["accounts", "demo", kind], Some(body.to_string())).await
    };
    post("credits", json!({"paid": "2550"})).await?;
    post("debits", json!({"paid": "2524.5", "note": "a credit of 2550 was to be 25.5"})).await?;
    post("debits", json!({"free": "1", "note": "a gift to another", "reference": "gift"})).await?;
    for (body, wanted) in [
        (json!({"paid": "1"}), "needs a note"),
        (json!({"paid": "126", "note": "too much"}), "has only 125.5"),
        (json!({"paid": "-1", "note": "a credit"}), "not above zero"),
        (json!({"paid": "0", "note": "nothing"}), "not above zero"),
        (json!({"paid": "1", "note": "two\nlines"}), "a note is one line"),
        (json!({"paid": "1", "note": "no", "reference": " "}), "a reference is one line"),
        (json!({"paid": "1", "note": "no", "reason": "no"}), "unknown field"),
    ] {
        let refused = post("debits", body).await.err().ok_or("it is refused")?;
        assert!(refused.is_refused() && refused.to_string().contains(wanted), "{wanted}: {refused}");
    }
    let balance = bench.caller.get("/api-key/balance").await?;
    assert_eq!((&balance["balance"], &balance["free_balance"]), (&json!("125.5"), &json!("4")));

    let query = [("limit", "2".to_owned())];
    let listed = bench.admin.list(&["accounts", "demo", "movements"], &query).await?;
    let movements = listed["movements"].as_array().ok_or("there are movements")?;
    let fields = |movement: &Value| {
        ["reason", "amount", "from", "to", "reference", "note"].map(|field| movement[field].clone())
    };
    let wanted = [
        ["debit", "1", "free", "", "gift", "a gift to another"],
        ["debit", "2524.5", "balance", "", "", "a credit of 2550 was to be 25.5"],
    ];
    let wanted = wanted.map(|row| row.map(|text| if text.is_empty() { Value::Null } else { json!(text) }));
    assert_eq!(movements.iter().map(fields).collect::<Vec<_>>(), wanted);
    let unknown = bench.admin.list(&["accounts", "nobody", "movements"], &[]).await;
    assert!(unknown.is_err_and(|error| error.to_string().contains("there is no account")));
    let audit = bench.admin.call("GET", &["audit"], None).await?;
    assert_eq!(audit["faults"], json!([]));
    Ok(())
}
