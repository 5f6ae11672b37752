//! Rows of a batch: a run for each, within a budget, after a look at all of them.

use inferstore_cli::exit;
use serde_json::Value;

use crate::support::{Local, names_in, pictures};

fn tasks(local: &Local) -> usize {
    local.cli.call("task list --all -q").stdout.lines().count()
}

fn write(local: &Local, name: &str, text: &str) {
    std::fs::write(local.cli.path(name), text).expect("it can be written");
}

fn records(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn each_row_is_a_run_and_continues_after_an_interruption() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let url = local.cli.call("files upload samples hazy.png -q").stdout.trim().to_owned();
    let csv = format!(
        "input_image,template,angle\np000.png,v_shape,30\n@p001.png,t_shape,60\n{url},v_shape,90\np000.png,v_shape,45\n"
    );
    write(&local, "jobs.csv", &csv);
    let run = "run color-harmonization --rows jobs.csv -o out --format jsonl";
    let ended = local.cli.call(run);
    assert_eq!((ended.code, tasks(&local)), (exit::DONE, 4), "{ended}");
    assert!(ended.stderr.contains("4 runs at 0.05: 0.2 in total"), "{ended}");
    let rows = records(&ended.stdout);
    let labels: Vec<_> = rows.iter().map(|row| row["file"].as_str().unwrap_or_default()).collect();
    assert_eq!(labels, ["jobs.csv:2", "jobs.csv:3", "jobs.csv:4", "jobs.csv:5"]);
    assert!(rows.iter().all(|row| row["status"] == "success" && row["outputs"].as_array().is_some()));
    let names = names_in(&local.cli.folder.path().join("out"));
    assert_eq!(names.len(), 9, "two outputs for each of four rows, and the journal: {names:?}");
    assert!(names.iter().any(|name| name.starts_with("p000-row-5-color")), "{names:?}");

    let again = local.cli.call(run);
    assert_eq!((again.code, tasks(&local)), (exit::DONE, 4), "{again}");
    assert!(again.stderr.contains("4 are paid already"), "{again}");
    write(&local, "jobs.csv", &format!("{csv}p001.png,x_cross,10\n"));
    assert_eq!((local.cli.call(run).code, tasks(&local)), (exit::DONE, 5), "the row that was added");
}

#[test]
fn a_mistake_is_named_by_its_row_before_anything_is_sent() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 1);
    for (rows, problems) in [
        ("input_image,template,angle\np000.png,v_shape,30\np000.png,v_shape,95\n", &["jobs:3", "angle"][..]),
        ("input_image,template,angle\nmissing.png,v_shape,30\n", &["jobs:2", "missing.png"]),
        ("input_image,template,angel\np000.png,v_shape,30\n", &["jobs:2", "angle"]),
        ("input_image,template,angle\np000.png,v_shape,30\np000.png,30\n", &["jobs:3", "columns"]),
        ("{\"input_image\":\"p000.png\",\"template\":\"v_shap\",\"angle\":\"30\"}\n", &["jobs:1", "v_shape"]),
        ("{\"input_image\":\"p000.png\"\n", &["jobs:1", "JSON"]),
        ("input_image,template,angle\n", &["no rows"]),
        ("[{\"input_image\":\"p000.png\"}]\n", &["JSON array", "jq -c"]),
    ] {
        write(&local, "jobs", rows);
        let ended = local.cli.call("run color-harmonization --rows jobs -o out");
        let is_named = problems.iter().all(|problem| ended.stderr.contains(problem));
        assert!(ended.code != exit::DONE && is_named && ended.stdout.is_empty(), "{rows}: {ended}");
    }
    assert_eq!(tasks(&local), 0);
    assert_eq!(local.cli.call("files stats -q").stdout, "0\n");
}

#[test]
fn a_sweep_is_a_run_for_each_value_of_a_number() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    let run = "run color-harmonization p000.png p001.png template=v_shape angle=10..30:10 -o out --json";
    let dry = local.cli.call(&format!("{run} --dry-run"));
    let quote: Value = serde_json::from_str(&dry.stdout).expect("it is JSON");
    assert_eq!((&quote["cost"], quote["files"].as_array().map(Vec::len)), (&"0.3".into(), Some(6)), "{dry}");
    assert_eq!(quote["files"][1], "p000.png angle=20");
    let ended = local.cli.call(run);
    assert_eq!((ended.code, tasks(&local)), (exit::DONE, 6), "{ended}");
    let names = names_in(&local.cli.folder.path().join("out"));
    assert!(names.contains(&"p001-angle-30-color-harmonization-output_image.png".to_owned()), "{names:?}");

    write(&local, "jobs.jsonl", "{\"input_image\":\"p000.png\"}\n{\"input_image\":\"p001.png\"}\n");
    let rows = "run color-harmonization --rows jobs.jsonl template=v_shape angle=10..20:10 -o rows";
    assert_eq!((local.cli.call(rows).code, tasks(&local)), (exit::DONE, 10));
    for (wrong, problem) in [("90..10", "no sweep"), ("1..90:0", "no sweep"), ("10..20:x", "angle")] {
        let ended = local
            .cli
            .call(&format!("run color-harmonization p000.png template=v_shape angle={wrong} -o out"));
        assert!(ended.code != exit::DONE && ended.stderr.contains(problem), "{ended}");
    }
    assert_eq!(tasks(&local), 10);
}

#[test]
fn a_cell_with_a_sweep_is_a_run_for_each_value() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 2);
    write(
        &local,
        "jobs.csv",
        "input_image,template,angle\np000.png,v_shape,10..30:10\np001.png,t_shape,60\np000.png,v_shape,20\n",
    );
    let run = "run color-harmonization --rows jobs.csv -o out --format jsonl";
    let ended = local.cli.call(run);
    assert_eq!((ended.code, tasks(&local)), (exit::DONE, 4), "{ended}");
    let labels: Vec<_> = records(&ended.stdout).iter().map(|row| row["file"].clone()).collect();
    let expected =
        ["jobs.csv:2 angle=10", "jobs.csv:2 angle=20", "jobs.csv:2 angle=30", "jobs.csv:3", "jobs.csv:4"];
    assert_eq!(labels, expected, "the last row is one of the sweep: {ended}");
    let names = names_in(&local.cli.folder.path().join("out"));
    assert!(names.contains(&"p000-angle-20-color-harmonization-output_image.png".to_owned()), "{names:?}");

    write(&local, "jobs.jsonl", "{\"input_image\":\"p000.png\",\"angle\":\"30..10\"}\n");
    let ended = local.cli.call("run color-harmonization --rows jobs.jsonl template=v_shape -o out");
    assert!(ended.stderr.contains("jobs.jsonl:1: ") && ended.stderr.contains("no sweep"), "{ended}");
    write(&local, "jobs.csv", "input_image,angle\np000.png,10..30:10\n");
    let ended = local.cli.call("run color-harmonization --rows jobs.csv template=v_shape angle=5 -o out");
    assert!(ended.code == exit::USAGE && ended.stderr.contains("given besides"), "{ended}");
    assert_eq!(tasks(&local), 4);
}

#[test]
fn each_of_equal_rows_has_a_line_and_one_run_is_paid() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 1);
    write(&local, "jobs.csv", "input_image\np000.png\np000.png\n@p000.png\n");
    let run = "run haze-removal --rows jobs.csv -o out";
    let ended = local.cli.call(&format!("{run} --format jsonl"));
    assert_eq!((ended.code, tasks(&local)), (exit::DONE, 1), "{ended}");
    let rows = records(&ended.stdout);
    let fields = |row: &Value| (row["file"].clone(), row["status"].clone(), row["cost"].clone());
    let cost = Value::from("0.01");
    assert_eq!(
        rows.iter().map(fields).collect::<Vec<_>>(),
        [("2", cost), ("3", Value::Null), ("4", Value::Null)].map(|(line, cost)| (
            format!("jobs.csv:{line}").into(),
            "success".into(),
            cost
        ))
    );
    assert!(rows.iter().all(|row| row["outputs"] == rows[0]["outputs"]), "{ended}");
    assert!(ended.stderr.contains("1 runs at 0.01: 0.01 in total"), "{ended}");
    write(
        &local,
        "jobs.jsonl",
        "{\"input_image\":\"p000.png\",\"angle\":40}\n{\"input_image\":\"p000.png\",\"angle\":\"40\"}\n\
         {\"input_image\":\"p000.png\",\"angle\":40.0}\n",
    );
    let spelled = "run color-harmonization --rows jobs.jsonl template=v_shape -o spelled --format jsonl";
    let spelled = local.cli.call(spelled);
    assert_eq!(
        (spelled.code, records(&spelled.stdout).len(), tasks(&local)),
        (exit::DONE, 3, 2),
        "{spelled}"
    );
    let again = local.cli.call(run);
    assert!(
        again.stdout.contains("3 of 3 succeeded, 1 of them earlier, 2 of them repeated rows; cost 0"),
        "{again}"
    );
}

#[test]
fn a_budget_holds_across_the_starts_of_a_batch() {
    let local = Local::start();
    pictures(local.cli.folder.path(), 5);
    let run = |files: &str, budget: &str| {
        local.cli.call(&format!("run haze-removal {files} -o out --budget {budget}"))
    };
    let refused = run("p000.png p001.png p002.png", "0.02");
    assert!(refused.code == exit::INPUT && refused.stderr.contains("the batch costs 0.03"), "{refused}");
    assert_eq!(tasks(&local), 0);
    assert_eq!(run("p000.png p001.png", "0.02").code, exit::DONE);
    let refused = run("p000.png p001.png p002.png", "0.02");
    assert_eq!((refused.code, tasks(&local)), (exit::INPUT, 2), "{refused}");
    assert_eq!((run("p000.png p001.png p002.png", "0.03").code, tasks(&local)), (exit::DONE, 3));
    // What is paid is within any budget.
    assert_eq!((run("p000.png p001.png p002.png", "0.03").code, tasks(&local)), (exit::DONE, 3));
    let one = local.cli.call("run haze-removal p004.png --budget 0.001");
    assert_eq!((one.code, tasks(&local)), (exit::INPUT, 3), "{one}");
}
