//! Test that every command on the documentation page of the controls works.

use reqwest::Method;

use super::support::{Bench, TestResult};

const PAGE: &str = include_str!("../../../../../docs/controls.md");

#[tokio::test]
async fn every_line_of_the_page_works_in_its_order() -> TestResult {
    let bench = Bench::start().await?;
    let mut sent = 0;
    for line in PAGE.lines().filter(|line| line.starts_with("control ")) {
        let path =
            line.split_once("$CONTROLS").map(|(_, rest)| rest.split([' ', '"']).next().unwrap_or_default());
        let url = format!("{}{}", bench.controls.url(), path.unwrap_or_default());
        let body = line.split_once("-d '").and_then(|(_, rest)| rest.rsplit_once('\'')).map(|(body, _)| body);
        let method = line.split_once("-X ").and_then(|(_, rest)| rest.split_whitespace().next());
        let method = method.unwrap_or(if body.is_some() { "POST" } else { "GET" });
        let mut request = bench.http.request(Method::from_bytes(method.as_bytes())?, url);
        request = request.header("authorization", format!("Bearer {}", bench.controls.token()));
        request = request.header("content-type", "application/json");
        if let Some(body) = body {
            request = request.body(body.to_owned());
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        assert_eq!(status, 200, "{line}\n{}", response.text().await?);
        sent += 1;
    }
    assert!(sent > 15, "only {sent} lines were found");
    Ok(())
}

#[test]
fn every_route_of_the_controls_is_on_the_page() {
    let routes = include_str!("../../../src/controls/http.rs");
    let routes = routes.lines().filter_map(|line| line.trim().strip_prefix(".route(\""));
    let mut paths: Vec<&str> = routes.filter_map(|route| route.split('"').next()).collect();
    paths.retain(|path| *path != "/");
    assert!(paths.len() > 8, "{paths:?}");
    for path in paths {
        let fixed = path.split('{').next().unwrap_or(path);
        assert!(PAGE.contains(&format!("$CONTROLS{fixed}")), "{path}");
    }
}
