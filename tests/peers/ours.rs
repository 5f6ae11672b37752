//! The client of this repository, for `cargo xtask bench peers`: each line of standard input is a job, and
//! each line of standard output its result. Needs `BASE_URL` and `API_KEY`.

#![expect(clippy::print_stdout, reason = "it answers on standard output")]

use std::env::var;
use std::io::stdin;

use inferstore::{Client, File, Inputs};

type Answer = Result<String, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::new(var("BASE_URL")?, var("API_KEY")?)?;
    println!("ready");
    for line in stdin().lines() {
        let line = line?;
        let answer = match line.split(' ').collect::<Vec<_>>()[..] {
            ["run", model, picture] => run(&client, model, picture).await,
            ["upload", path] => upload(&client, path).await,
            _ => Err(format!("what is {line:?}?").into()),
        };
        match answer {
            Ok(result) => println!("ok {result}"),
            Err(error) => println!("failed {}", error.to_string().replace('\n', " ")),
        }
    }
    Ok(())
}

async fn run(client: &Client, model: &str, picture: &str) -> Answer {
    let outcome = client.model(model).run(Inputs::new().set("input", picture)).await?;
    Ok(outcome.output["output"].to_string())
}

async fn upload(client: &Client, path: &str) -> Answer {
    Ok(client.folder("samples").upload(File::path(path)).await?.download_url)
}
