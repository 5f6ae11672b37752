// Runs a model on a picture: upload, create once, poll, download. Needs the libraries of Mono or .NET alone.
//   mcs -r:System.Net.Http,System.Runtime.Serialization,System.Xml,System.Xml.Linq run.cs
//   BASE_URL=https://host/api/v1 API_KEY=… mono run.exe photo.png clear.png
using System;
using System.IO;
using System.Net.Http;
using System.Runtime.Serialization.Json;
using System.Text;
using System.Threading;
using System.Xml.Linq;
using Quotas = System.Xml.XmlDictionaryReaderQuotas;
static class Run {
    // A bucket responds to a download with a redirect; calls with the key follow none.
    static readonly HttpClient Direct = new HttpClient(new HttpClientHandler { AllowAutoRedirect = false });
    /// Sends a request, again after a lost response, a 408, a 429 or a 5xx. Returns the body of the success.
    static byte[] Send(HttpClient client, Func<HttpRequestMessage> request) {
        for (var attempt = 1; ; attempt++) {
            string problem;
            var pause = TimeSpan.FromSeconds(attempt);
            try {
                var response = client.SendAsync(request()).Result;
                var body = response.Content.ReadAsByteArrayAsync().Result;
                if (response.IsSuccessStatusCode) return body;
                var status = (int)response.StatusCode;
                problem = status + " " + Encoding.UTF8.GetString(body);
                if (status < 500 && status != 408 && status != 429) attempt = 5;
                if (response.Headers.RetryAfter?.Delta > pause) pause = response.Headers.RetryAfter.Delta.Value;
            } catch (AggregateException lost) { problem = lost.InnerException.Message; }
            if (attempt == 5) throw new Exception("a request failed: " + problem);
            Thread.Sleep(pause);
        }
    }
    /// Sends a call to the API, and returns its data. All attempts carry one key, so that a create makes one task.
    static XElement Call(HttpMethod method, string path, string json = null) {
        string key = Guid.NewGuid().ToString(), url = Environment.GetEnvironmentVariable("BASE_URL") + path;
        return Parse(Send(Direct, () => new HttpRequestMessage(method, url) {
            Headers = { { "x-api-key", Environment.GetEnvironmentVariable("API_KEY") }, { "idempotency-key", key } },
            Content = json == null ? null : new StringContent(json, Encoding.UTF8, "application/json"),
        })).Element("data");
    }
    static XElement Parse(byte[] json) => XElement.Load(JsonReaderWriterFactory.CreateJsonReader(json, Quotas.Max));
    static void Main(string[] arguments) {
        // 1. Upload. The target grants access and needs no key.
        var photo = File.ReadAllBytes(arguments[0]);
        var name = Path.GetFileName(arguments[0]).Replace("\\", "\\\\").Replace("\"", "\\\"");
        var kind = photo[0] == 0xFF ? "jpeg" : photo[0] == 'R' ? "webp" : photo[0] == 'G' ? "gif" : "png";
        var file = $"{{\"folder\": \"samples\", \"name\": \"{name}\", \"mime\": \"image/{kind}\", \"size\": {photo.Length}}}";
        var target = Call(HttpMethod.Post, "/api-key/storage/upload/create-presigned-url", file);
        var endpoint = target.Element("endpoint").Value;
        var fields = Parse(Encoding.UTF8.GetBytes(target.Element("fields").Value));
        Send(Direct, () => {
            var content = new ByteArrayContent(photo);
            if (endpoint.Contains("X-Amz-Algorithm")) {
                content.Headers.Add("content-type", fields.Element("Content-Type").Value);
                return new HttpRequestMessage(HttpMethod.Put, endpoint) { Content = content };
            }
            var form = new MultipartFormDataContent();
            foreach (var field in fields.Elements()) form.Add(new StringContent(field.Value), field.Name.LocalName);
            form.Add(content, "file", "photo.png");
            return new HttpRequestMessage(HttpMethod.Post, endpoint) { Content = form };
        });
        // 2. Create once.
        var inputs = $"{{\"input_image\": \"{target.Element("download_url").Value}\"}}";
        var task = Call(HttpMethod.Post, "/api-key/model/haze-removal/task", inputs).Element("data").Value;
        Console.WriteLine("task " + task);
        // 3. Poll until the status is terminal: early, since many models are quick, then every 2 to 5 seconds.
        XElement detail = null;
        for (var pause = 250; detail?.Element("status").Value != "success"; pause = Math.Min(2 * pause, 5000)) {
            Thread.Sleep(pause);
            detail = Call(HttpMethod.Get, "/api-key/task/" + task + "/detail");
            if (detail.Element("status").Value == "failed") throw new Exception("failed: " + detail.Element("message")?.Value);
            if (detail.Element("status").Value == "canceled") throw new Exception("the task was canceled, and is not billed");
        }
        // 4. Download.
        var image = detail.Element("result").Element("result").Element("output_image").Value;
        File.WriteAllBytes(arguments[1], Send(new HttpClient(), () => new HttpRequestMessage(HttpMethod.Get, image)));
        Console.WriteLine(arguments[1]);
    }
}
