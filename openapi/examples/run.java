// Runs a model on a picture: upload, create once, poll, download. Needs JDK 17 alone.
//   BASE_URL=https://host/api/v1 API_KEY=… java run.java photo.png clear.png
import java.net.URI;
import java.net.http.*;
import java.net.http.HttpClient.Redirect;
import java.net.http.HttpRequest.*;
import java.nio.file.*;
import java.util.*;
import java.util.regex.*;
class Run {
    static void fail(String problem) { System.err.println(problem); System.exit(1); }
    /** Sends a request, again after a lost response, a 408, a 429 or a 5xx. Returns the body of the success. */
    static byte[] send(String method, String url, BodyPublisher body, String... headers) throws InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(url)).timeout(java.time.Duration.ofMinutes(2)).method(method, body);
        if (headers.length > 0) request.headers(headers);
        // A bucket responds to a download with a redirect; calls with the key follow none.
        var client = HttpClient.newBuilder().followRedirects(headers.length > 0 ? Redirect.NEVER : Redirect.NORMAL).build();
        for (int attempt = 1; ; attempt++) {
            String problem, after = "0";
            try {
                var response = client.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
                problem = response.statusCode() + " " + new String(response.body());
                if (problem.startsWith("2")) return response.body();
                if (!problem.matches("(?s)(5|408|429).*")) attempt = 5;
                after = response.headers().firstValue("retry-after").filter(text -> text.matches("\\d{1,5}")).orElse("0");
            } catch (java.io.IOException error) { problem = error.toString(); }
            if (attempt == 5) fail(method + " failed: " + problem);
            Thread.sleep(1000L * Math.max(attempt, Integer.parseInt(after)));
        }
    }
    /** Sends a call to the API. All attempts carry one key, so that a create makes one task. */
    static Map<String, String> call(String method, String path, String body) throws Exception {
        return texts(new String(send(method, System.getenv("BASE_URL") + path, BodyPublishers.ofString(body), "x-api-key",
            System.getenv("API_KEY"), "content-type", "application/json", "idempotency-key", "" + UUID.randomUUID()), "UTF-8"));
    }
    /** Returns the texts in JSON by the names of their members. A program with a JSON library uses that instead. */
    static Map<String, String> texts(String json) {
        var texts = new LinkedHashMap<String, String>();
        String text = "\"((?:[^\"\\\\]++|\\\\.)*+)\"";
        Pattern.compile(text + "\\s*:\\s*" + text).matcher(json).results().forEach(member -> texts.put(member.group(1),
            Pattern.compile("\\\\(?:u(....)|.)").matcher(member.group(2)).replaceAll(found -> Matcher.quoteReplacement(
                found.group(1) != null ? "" + (char) Integer.parseInt(found.group(1), 16)
                    : found.group().equals("\\/") ? "/" : found.group().translateEscapes()))));
        return texts;
    }
    public static void main(String[] arguments) throws Exception {
        if (arguments.length != 2 || !System.getenv().keySet().containsAll(Set.of("BASE_URL", "API_KEY")))
            fail("usage: BASE_URL=https://host/api/v1 API_KEY=… java run.java photo.png clear.png");
        Path photo = Path.of(arguments[0]);
        // 1. Upload. The target grants access and needs no key.
        byte first = Files.readAllBytes(photo)[0];
        String kind = first == -1 ? "jpeg" : first == 'R' ? "webp" : first == 'G' ? "gif" : "png";
        String file = "{\"folder\": \"samples\", \"name\": \"%s\", \"mime\": \"image/%s\", \"size\": %d}".formatted(
            photo.getFileName().toString().replaceAll("[\"\\\\]", "\\\\$0"), kind, Files.size(photo));
        var target = call("POST", "/api-key/storage/upload/create-presigned-url", file);
        var fields = texts(target.get("fields"));
        if (target.get("endpoint").contains("X-Amz-Algorithm")) {
            send("PUT", target.get("endpoint"), BodyPublishers.ofFile(photo), "content-type", fields.get("Content-Type"));
        } else {
            String form = "", boundary = UUID.randomUUID().toString();
            String part = "--" + boundary + "\r\ncontent-disposition: form-data; name=\"%s\"\r\n\r\n%s";
            for (var field : fields.entrySet()) form += part.formatted(field.getKey(), field.getValue() + "\r\n");
            var body = BodyPublishers.concat(BodyPublishers.ofString(form + part.formatted("file\"; filename=\"photo.png", "")),
                BodyPublishers.ofFile(photo), BodyPublishers.ofString("\r\n--" + boundary + "--\r\n"));
            send("POST", target.get("endpoint"), body, "content-type", "multipart/form-data; boundary=" + boundary);
        }
        // 2. Create once.
        var inputs = "{\"input_image\": \"" + target.get("download_url") + "\"}";
        var task = call("POST", "/api-key/model/haze-removal/task", inputs).get("data");
        System.out.println("task " + task);
        // 3. Poll until there is a result: early, since many models are quick, then every 2 to 5 seconds.
        Map<String, String> detail = Map.of();
        for (long pause = 250; !detail.containsKey("output_image"); pause = Math.min(2 * pause, 5000)) {
            Thread.sleep(pause);
            detail = call("GET", "/api-key/task/" + task + "/detail", "");
            if ("failed".equals(detail.get("status"))) fail("failed: " + detail.get("message"));
            if ("canceled".equals(detail.get("status"))) fail("the task was canceled, and is not billed");
        }
        // 4. Download.
        System.out.println(Files.write(Path.of(arguments[1]), send("GET", detail.get("output_image"), BodyPublishers.noBody())));
    }
}
