//! Creates a task and reads it, as a user of `inferstore-api` would write it.

use inferstore_api::{ApiKey, Client, types::TaskInput};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::new("https://host.example/api/v1", ApiKey::new(std::env::var("KEY")?))?;
    let photo = "https://host.example/photo.jpg".to_owned();
    let input = TaskInput([("input_image".to_owned(), photo.into())].into_iter().collect());
    let created = client.create_task(&"haze-removal".parse()?, None, &input).await?.into_inner();
    let task = client.get_task(&created.data.data).await?.into_inner().data;
    println!("{:?}", task.status);
    Ok(())
}
