// Drives the service with the Java client of openapi-generator. See ../../README.md for the environment and
// the output.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.util.Base64;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.AccountApi;
import org.openapitools.client.api.ModelsApi;
import org.openapitools.client.api.StorageApi;
import org.openapitools.client.api.StorageApi.APIListFilesRequest;
import org.openapitools.client.api.TasksApi;
import org.openapitools.client.api.TasksApi.APIListTasksRequest;
import org.openapitools.client.model.AccountBalance;
import org.openapitools.client.model.Descriptor;
import org.openapitools.client.model.FileListing;
import org.openapitools.client.model.FileUrl;
import org.openapitools.client.model.ModelDetail;
import org.openapitools.client.model.ModelListRequest;
import org.openapitools.client.model.ModelSort;
import org.openapitools.client.model.ModelVersioning;
import org.openapitools.client.model.PresignRequest;
import org.openapitools.client.model.PresignedUpload;
import org.openapitools.client.model.StorageStatistics;
import org.openapitools.client.model.TaskDetail;
import org.openapitools.client.model.TaskPage;
import org.openapitools.client.model.UploadFolder;

public final class Life {
  private static final int LARGE_FILE_SIZE = 5_242_881;
  private static final long POLL_INTERVAL_MS = 300;
  private static final int MAX_POLLS = 200;
  private static final Set<String> TERMINAL = Set.of("success", "failed", "canceled");
  private static final byte[] SMALL_PNG =
      Base64.getDecoder()
          .decode(
              "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==");
  private static final ObjectMapper JSON = new ObjectMapper();

  private interface Call {
    void run() throws ApiException;
  }

  private static ApiClient clientWith(String key) {
    ApiClient client = new ApiClient();
    client.updateBaseUri(System.getenv("BASE_URL"));
    client.setRequestInterceptor(request -> request.header("x-api-key", key));
    return client;
  }

  /** Returns the status code in the error of a call, or null when the call succeeds. */
  private static Integer statusCodeOfFailure(Call call) {
    try {
      call.run();
    } catch (ApiException error) {
      return error.getCode();
    }
    return null;
  }

  /** Step 2 of an upload. It is not part of the API and must not carry the API key. */
  private static void send(PresignedUpload target, String name, byte[] content)
      throws IOException, InterruptedException {
    JsonNode fields = JSON.readTree(target.getFields());
    HttpRequest.Builder request = HttpRequest.newBuilder(target.getEndpoint());
    if (target.getEndpoint().toString().contains("X-Amz-Algorithm")) {
      request.header("content-type", fields.get("Content-Type").asText());
      request.PUT(BodyPublishers.ofByteArray(content));
    } else {
      String boundary = "life-" + System.nanoTime();
      ByteArrayOutputStream form = new ByteArrayOutputStream();
      for (Iterator<String> names = fields.fieldNames(); names.hasNext(); ) {
        String field = names.next();
        form.write(part(boundary, "name=\"" + field + "\"", fields.get(field).asText().getBytes()));
      }
      form.write(part(boundary, "name=\"file\"; filename=\"" + name + "\"", content));
      form.write(("--" + boundary + "--\r\n").getBytes());
      request.header("content-type", "multipart/form-data; boundary=" + boundary);
      request.POST(BodyPublishers.ofByteArray(form.toByteArray()));
    }
    HttpResponse<String> response =
        HttpClient.newHttpClient().send(request.build(), HttpResponse.BodyHandlers.ofString());
    if (response.statusCode() > 299) {
      throw new IOException("step 2: " + response.statusCode() + " " + response.body());
    }
  }

  private static byte[] part(String boundary, String disposition, byte[] content) throws IOException {
    ByteArrayOutputStream part = new ByteArrayOutputStream();
    part.write(("--" + boundary + "\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\n").getBytes());
    part.write(content);
    part.write("\r\n".getBytes());
    return part.toByteArray();
  }

  private static URI upload(StorageApi storage, String name, String mime, byte[] content) throws Exception {
    PresignRequest declaration =
        new PresignRequest().folder(UploadFolder.SAMPLES).mime(mime).name(name).size((long) content.length);
    PresignedUpload target = storage.createPresignedUpload(declaration).getData();
    send(target, name, content);
    return target.getDownloadUrl();
  }

  private static TaskDetail await(TasksApi tasks, String id) throws Exception {
    for (int poll = 0; poll < MAX_POLLS; poll++) {
      TaskDetail task = tasks.getTask(id).getData();
      if (task.getStatus() != null && TERMINAL.contains(task.getStatus())) {
        return task;
      }
      Thread.sleep(POLL_INTERVAL_MS);
    }
    throw new IllegalStateException("the task " + id + " has no terminal status");
  }

  private static Object outputOf(TaskDetail task) {
    if (task.getResult() == null || !(task.getResult().getResult() instanceof Map)) {
      return null;
    }
    return ((Map<?, ?>) task.getResult().getResult()).get("output");
  }

  private static Map<String, Object> drive() throws Exception {
    Map<String, Object> report = new LinkedHashMap<>();
    ApiClient client = clientWith(System.getenv("API_KEY"));
    String model = System.getenv("MODEL");
    AccountApi account = new AccountApi(client);
    ModelsApi models = new ModelsApi(client);
    TasksApi tasks = new TasksApi(client);
    StorageApi storage = new StorageApi(client);
    if (Set.of("html502", "http429").contains(String.valueOf(System.getenv("MODE")))) {
      report.put("code", statusCodeOfFailure(account::getBalance));
      return report;
    }

    AccountApi stranger = new AccountApi(clientWith("wrong-key"));
    Integer refused = statusCodeOfFailure(stranger::getBalance);
    AccountBalance balance = account.getBalance().getData();
    models.listModels(new ModelListRequest().search("color").sort(ModelSort.TRENDING).limit(5));
    ModelDetail detail = models.getModel(model).getData();
    ModelVersioning version = models.getModelVersioning(model).getData();
    models.getModelCost(model);
    models.getModelServing(model);

    String run = "java-" + System.currentTimeMillis();
    URI small = upload(storage, run + ".png", "image/png", SMALL_PNG);
    URI large = upload(storage, run + ".mp4", "video/mp4", new byte[LARGE_FILE_SIZE]);

    Map<String, Object> input = Map.of("input", small);
    TaskDetail task = await(tasks, tasks.createTask(model, input, null).getData().getData());
    APIListTasksRequest page = APIListTasksRequest.newBuilder().limit(100).offset(0L).build();
    TaskPage history = tasks.listTasks(page).getData();
    String second = tasks.createTaskAlias(model, input, null).getData().getData();
    // A node may have been faster than the cancel.
    statusCodeOfFailure(() -> tasks.cancelTask(second));
    TaskDetail canceled = await(tasks, second);

    APIListFilesRequest samples = APIListFilesRequest.newBuilder().folder("samples").page(1L).pageSize(20).build();
    FileListing listing = storage.listFiles(samples).getData();
    StorageStatistics statistics = storage.getStorageStatistics().getData();
    int deleted = 0;
    for (URI url : List.of(small, large)) {
      storage.deleteFile(new FileUrl().url(url));
      deleted++;
    }

    Map<String, Descriptor> inputs = version.getInputFormat();
    Descriptor descriptor = inputs == null ? null : inputs.get("input");
    report.put("refused", refused);
    report.put("balance", balance.getBalance());
    report.put("price", detail.getPrice());
    report.put("visibility", detail.getVisibility());
    report.put("type", descriptor == null ? null : descriptor.getType());
    report.put("status", task.getStatus());
    report.put("output", outputOf(task));
    report.put("history", history.getTotal());
    report.put("after_cancel", canceled.getStatus());
    report.put("files", listing.getFiles() == null ? null : listing.getFiles().size());
    report.put("total_files", statistics.getTotalFiles());
    report.put("deleted", deleted);
    return report;
  }

  public static void main(String[] arguments) throws Exception {
    System.out.println(JSON.writeValueAsString(drive()));
  }
}
