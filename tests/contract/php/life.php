<?php

// Drives the service with the PHP client of openapi-generator. See ../README.md for the environment and
// the output.

declare(strict_types=1);

require_once 'GuzzleHttp/autoload.php';

use OpenAPI\Client\Api\AccountApi;
use OpenAPI\Client\Api\ModelsApi;
use OpenAPI\Client\Api\StorageApi;
use OpenAPI\Client\Api\TasksApi;
use OpenAPI\Client\ApiException;
use OpenAPI\Client\Configuration;
use OpenAPI\Client\Model\FileUrl;
use OpenAPI\Client\Model\ModelListRequest;
use OpenAPI\Client\Model\ModelSort;
use OpenAPI\Client\Model\PresignedUpload;
use OpenAPI\Client\Model\PresignRequest;
use OpenAPI\Client\Model\TaskDetail;
use OpenAPI\Client\Model\UploadFolder;

const LARGE_FILE_SIZE = 5_242_881;
const POLL_INTERVAL_US = 300_000;
const MAX_POLLS = 200;
const TERMINAL = ['success', 'failed', 'canceled'];
const SMALL_PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

// What Composer does for a package.
spl_autoload_register(function (string $class): void {
    $prefix = 'OpenAPI\\Client\\';
    if (str_starts_with($class, $prefix)) {
        require_once __DIR__ . '/client/lib/' . str_replace('\\', '/', substr($class, strlen($prefix))) . '.php';
    }
});

function configuration(string $key): Configuration
{
    return (new Configuration())->setHost(getenv('BASE_URL'))->setApiKey('x-api-key', $key);
}

/** Returns the status code in the error of a call, or null when the call succeeds. */
function status_code_of_failure(callable $call): ?int
{
    try {
        $call();
    } catch (ApiException $error) {
        return $error->getCode();
    }
    return null;
}

/** Step 2 of an upload. It is not part of the API and must not carry the API key. */
function send(PresignedUpload $target, string $name, string $content): void
{
    $fields = json_decode($target->getFields(), true, flags: JSON_THROW_ON_ERROR);
    $http = new GuzzleHttp\Client();
    if (str_contains($target->getEndpoint(), 'X-Amz-Algorithm')) {
        $headers = ['content-type' => $fields['Content-Type']];
        $http->put($target->getEndpoint(), ['headers' => $headers, 'body' => $content]);
        return;
    }
    $form = [];
    foreach ($fields as $field => $value) {
        $form[] = ['name' => $field, 'contents' => $value];
    }
    $form[] = ['name' => 'file', 'filename' => $name, 'contents' => $content];
    $http->post($target->getEndpoint(), ['multipart' => $form]);
}

function upload(StorageApi $storage, string $name, string $mime, string $content): string
{
    $declaration = new PresignRequest([
        'folder' => UploadFolder::SAMPLES,
        'mime' => $mime,
        'name' => $name,
        'size' => strlen($content),
    ]);
    $target = $storage->createPresignedUpload($declaration)->getData();
    send($target, $name, $content);
    return $target->getDownloadUrl();
}

function wait(TasksApi $tasks, string $id): TaskDetail
{
    for ($poll = 0; $poll < MAX_POLLS; $poll++) {
        $task = $tasks->getTask($id)->getData();
        if (in_array($task->getStatus(), TERMINAL, true)) {
            return $task;
        }
        usleep(POLL_INTERVAL_US);
    }
    throw new RuntimeException("the task $id has no terminal status");
}

function main(): array
{
    $configuration = configuration(getenv('API_KEY'));
    $model = getenv('MODEL');
    $account = new AccountApi(config: $configuration);
    $models = new ModelsApi(config: $configuration);
    $tasks = new TasksApi(config: $configuration);
    $storage = new StorageApi(config: $configuration);
    if (in_array(getenv('MODE'), ['html502', 'http429'], true)) {
        return ['code' => status_code_of_failure(fn () => $account->getBalance())];
    }

    $stranger = new AccountApi(config: configuration('wrong-key'));
    $refused = status_code_of_failure(fn () => $stranger->getBalance());
    $balance = $account->getBalance()->getData();
    $models->listModels(new ModelListRequest(['search' => 'color', 'sort' => ModelSort::TRENDING, 'limit' => 5]));
    $detail = $models->getModel($model)->getData();
    $version = $models->getModelVersioning($model)->getData();
    $models->getModelCost($model);
    $models->getModelServing($model);

    $run = 'php-' . hrtime(true);
    $small = upload($storage, "$run.png", 'image/png', base64_decode(SMALL_PNG));
    $large = upload($storage, "$run.mp4", 'video/mp4', str_repeat("\0", LARGE_FILE_SIZE));

    $task = wait($tasks, $tasks->createTask($model, ['input' => $small])->getData()->getData());
    $history = $tasks->listTasks(limit: 100, offset: 0)->getData();
    $second = $tasks->createTaskAlias($model, ['input' => $small])->getData()->getData();
    // A node may have been faster than the cancel.
    status_code_of_failure(fn () => $tasks->cancelTask($second));
    $canceled = wait($tasks, $second);

    $listing = $storage->listFiles('samples', page: 1, page_size: 20)->getData();
    $statistics = $storage->getStorageStatistics()->getData();
    $deleted = 0;
    foreach ([$small, $large] as $url) {
        $storage->deleteFile(new FileUrl(['url' => $url]));
        $deleted++;
    }

    $result = $task->getResult()?->getResult();
    return [
        'refused' => $refused,
        'balance' => $balance->getBalance(),
        'price' => $detail->getPrice(),
        'visibility' => $detail->getVisibility(),
        'type' => ($version->getInputFormat()['input'] ?? null)?->getType(),
        'status' => $task->getStatus(),
        'output' => is_object($result) ? $result->output : $result['output'] ?? null,
        'history' => $history->getTotal(),
        'after_cancel' => $canceled->getStatus(),
        'files' => $listing->getFiles() === null ? null : count($listing->getFiles()),
        'total_files' => $statistics->getTotalFiles(),
        'deleted' => $deleted,
    ];
}

echo json_encode(main(), JSON_THROW_ON_ERROR), "\n";
