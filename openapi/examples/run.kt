// Runs a model on a picture: upload, create once, poll, download. Needs JDK 11 and the standard library of Kotlin alone.
//   kotlinc run.kt -include-runtime -d run.jar
//   BASE_URL=https://host/api/v1 API_KEY=… java -jar run.jar photo.png clear.png
import java.io.File
import java.net.URI
import java.net.http.*
import java.util.UUID.randomUUID
/** Sends a request, again after a lost response, a 408, a 429 or a 5xx. Returns the body of the success. */
fun send(method: String, url: String, body: ByteArray = ByteArray(0), headers: Map<String, String> = emptyMap()): ByteArray {
    val request = HttpRequest.newBuilder(URI.create(url)).timeout(java.time.Duration.ofMinutes(2))
    request.method(method, HttpRequest.BodyPublishers.ofByteArray(body))
    headers.forEach { (name, value) -> request.header(name, value) }
    // A bucket responds to a download with a redirect; calls with the key follow none.
    val redirect = if (headers.isEmpty()) HttpClient.Redirect.NORMAL else HttpClient.Redirect.NEVER
    val client = HttpClient.newBuilder().followRedirects(redirect).build()
    var attempt = 0
    while (true) {
        var pause = ++attempt
        val problem = try {
            val response = client.send(request.build(), HttpResponse.BodyHandlers.ofByteArray())
            val status = response.statusCode()
            if (status in 200..299) return response.body()
            if (status < 500 && status != 408 && status != 429) attempt = 5
            pause = maxOf(pause, response.headers().firstValue("retry-after").orElse("").toIntOrNull() ?: 0)
            "$status ${String(response.body())}"
        } catch (lost: java.io.IOException) { "$lost" }
        check(attempt < 5) { "$method failed: $problem" }
        Thread.sleep(1000L * pause)
    }
}
/** Sends a call to the API. All attempts carry one key, so that a create makes one task. */
fun call(method: String, path: String, body: String = ""): Map<String, String> {
    val headers = mapOf("x-api-key" to System.getenv("API_KEY"), "idempotency-key" to "${randomUUID()}",
        "content-type" to "application/json")
    return texts(String(send(method, System.getenv("BASE_URL") + path, body.toByteArray(), headers)))
}
/** Returns the texts in JSON by the names of their members. A program with a JSON library uses that instead. */
fun texts(json: String): Map<String, String> {
    val text = """"((?:[^"\\]++|\\.)*+)""""
    val escapes = mapOf("b" to "\b", "f" to "\u000c", "n" to "\n", "r" to "\r", "t" to "\t")
    fun plain(text: String) = Regex("""\\(?:u(....)|(.))""").replace(text) {
        val (code, letter) = it.destructured
        if (code == "") escapes[letter] ?: letter else "${code.toInt(16).toChar()}"
    }
    return Regex("""$text\s*:\s*$text""").findAll(json).associate { it.groupValues[1] to plain(it.groupValues[2]) }
}

fun main(arguments: Array<String>) {
    val (photo, result) = arguments.map(::File)
    // 1. Upload. The target grants access and needs no key.
    val name = photo.name.replace(Regex("""["\\]"""), """\\$0""")
    val kind = mapOf(0xFF to "jpeg", 0x52 to "webp", 0x47 to "gif")[photo.inputStream().use { it.read() }] ?: "png"
    val file = """{"folder": "samples", "name": "$name", "mime": "image/$kind", "size": ${photo.length()}}"""
    val target = call("POST", "/api-key/storage/upload/create-presigned-url", file)
    val (endpoint, fields) = target.getValue("endpoint") to texts(target.getValue("fields"))
    if ("X-Amz-Algorithm" in endpoint) {
        send("PUT", endpoint, photo.readBytes(), mapOf("content-type" to fields.getValue("Content-Type")))
    } else {
        val boundary = "${randomUUID()}"
        val part = "--$boundary\r\ncontent-disposition: form-data; name="
        val texts = fields.map { (name, value) -> "$part\"$name\"\r\n\r\n$value\r\n" }
        val form = texts.joinToString("", postfix = "$part\"file\"; filename=\"photo.png\"\r\n\r\n")
        val body = form.toByteArray() + photo.readBytes() + "\r\n--$boundary--\r\n".toByteArray()
        send("POST", endpoint, body, mapOf("content-type" to "multipart/form-data; boundary=$boundary"))
    }
    // 2. Create once.
    val task = call("POST", "/api-key/model/haze-removal/task", """{"input_image": "${target["download_url"]}"}""").getValue("data")
    println("task $task")
    // 3. Poll until there is a result: early, since many models are quick, then every 2 to 5 seconds.
    var detail = emptyMap<String, String>()
    for (pause in generateSequence(250L) { minOf(2 * it, 5000) }.takeWhile { "output_image" !in detail }) {
        Thread.sleep(pause)
        detail = call("GET", "/api-key/task/$task/detail")
        check(detail["status"] != "failed") { "failed: ${detail["message"]}" }
        check(detail["status"] != "canceled") { "the task was canceled, and is not billed" }
    }
    // 4. Download.
    println(result.apply { writeBytes(send("GET", detail.getValue("output_image"))) })
}
