<?php
// Runs a model on a picture: upload, create once, poll, download. Needs PHP 8 with curl.
//   BASE_URL=https://host/api/v1 API_KEY=… php run.php photo.png clear.png
declare(strict_types=1);
function fail(string $problem): never { fwrite(STDERR, "$problem\n"); exit(1); }
// A warning, such as that of a file that cannot be written, ends the program too.
set_error_handler(fn (int $_, string $problem) => fail($problem));
set_exception_handler(fn (Throwable $error) => fail($error->getMessage()));

/** Sends a request, again after a lost response, a 408, a 429 or a 5xx. Returns the body of the success. */
function send(string $method, string $url, array $headers = [], mixed $body = null): string
{
    for ($attempt = 1; ; $attempt++) {
        $after = 0;
        $curl = curl_init($url);
        curl_setopt_array($curl, [
            CURLOPT_CUSTOMREQUEST => $method,
            CURLOPT_HTTPHEADER => $headers,
            CURLOPT_RETURNTRANSFER => true,
            // A bucket responds to a download with a redirect; calls with the key follow none.
            CURLOPT_FOLLOWLOCATION => $headers === [] && $method === 'GET',
            CURLOPT_TIMEOUT => 120,
            CURLOPT_HEADERFUNCTION => function ($_, string $line) use (&$after): int {
                $after = stripos($line, 'retry-after:') === 0 ? (int) substr($line, 12) : $after;
                return strlen($line);
            },
        ] + ($body === null ? [] : [CURLOPT_POSTFIELDS => $body]));
        $content = curl_exec($curl);
        $status = curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
        $isComplete = $content !== false && curl_errno($curl) === 0;
        if ($isComplete && $status >= 200 && $status < 300) {
            return $content;
        }
        $problem = $isComplete ? "$status $content" : curl_error($curl);
        if ($isComplete && $status < 500 && $status !== 408 && $status !== 429 || $attempt === 5) {
            fail("$method failed after $attempt attempts: $problem");
        }
        sleep(max($after, $attempt));
    }
}

function call(string $method, string $path, ?array $body = null, ?string $key = null): array
{
    $headers = ['x-api-key: ' . getenv('API_KEY'), 'content-type: application/json', ...($key ? ["idempotency-key: $key"] : [])];
    $content = $body === null ? null : json_encode($body, JSON_THROW_ON_ERROR);
    $response = json_decode(send($method, getenv('BASE_URL') . $path, $headers, $content), true, flags: JSON_THROW_ON_ERROR);
    return $response['data'];
}

if ($argc !== 3 || !getenv('BASE_URL') || !getenv('API_KEY')) {
    fail('usage: BASE_URL=https://host/api/v1 API_KEY=… php run.php photo.png clear.png');
}
[, $photo, $result] = $argv;

// 1. Upload. The target grants access and needs no key.
$file = ['folder' => 'samples', 'name' => basename($photo), 'mime' => getimagesize($photo)['mime'], 'size' => filesize($photo)];
$target = call('POST', '/api-key/storage/upload/create-presigned-url', $file);
$fields = json_decode($target['fields'], true, flags: JSON_THROW_ON_ERROR);
if (str_contains($target['endpoint'], 'X-Amz-Algorithm')) {
    send('PUT', $target['endpoint'], ['content-type: ' . $fields['Content-Type']], file_get_contents($photo));
} else {
    send('POST', $target['endpoint'], [], $fields + ['file' => new CURLFile($photo, $file['mime'], basename($photo))]);
}

// 2. Create once: all attempts carry one key, so that they make one task.
$task = call('POST', '/api-key/model/haze-removal/task', ['input_image' => $target['download_url']], bin2hex(random_bytes(16)))['data'];
echo "task $task\n";

// 3. Poll until the status is terminal.
for ($pause = 1; ($detail = call('GET', "/api-key/task/$task/detail"))['status'] !== 'success'; $pause = min($pause + 1, 5)) {
    if (in_array($detail['status'], ['failed', 'canceled'], true)) {
        fail($detail['status'] === 'failed' ? "failed: {$detail['message']}" : 'the task was canceled, and is not billed');
    }
    sleep($pause);
}

// 4. Download.
file_put_contents($result, send('GET', $detail['result']['result']['output_image']));
echo "$result\n";
