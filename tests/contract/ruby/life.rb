# Drives the service with the Ruby client of openapi-generator. See ../README.md for the environment and
# the output.
# frozen_string_literal: true

require 'json'
require 'net/http'
require 'openapi_client'
require 'stringio'

LARGE_FILE_SIZE = 5_242_881
POLL_INTERVAL = 0.3
MAX_POLLS = 200
TERMINAL = %w[success failed canceled].freeze
SMALL_PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
            .unpack1('m')

def client_with(key)
  root = URI(ENV.fetch('BASE_URL'))
  configuration = OpenapiClient::Configuration.new do |config|
    config.scheme = root.scheme
    config.host = "#{root.host}:#{root.port}"
    config.base_path = root.path
    config.api_key['x-api-key'] = key
  end
  OpenapiClient::ApiClient.new(configuration)
end

# Returns the status code in the error of a call, or nil when the call succeeds.
def status_code_of_failure
  yield
  nil
rescue OpenapiClient::ApiError => e
  e.code
end

# Step 2 of an upload. It is not part of the API and must not carry the API key.
def send_content(target, name, content)
  fields = JSON.parse(target.fields)
  endpoint = URI(target.endpoint)
  if target.endpoint.include?('X-Amz-Algorithm')
    request = Net::HTTP::Put.new(endpoint, 'content-type' => fields['Content-Type'])
    request.body = content
  else
    request = Net::HTTP::Post.new(endpoint)
    file = ['file', StringIO.new(content), { filename: name }]
    request.set_form([*fields.to_a, file], 'multipart/form-data')
  end
  response = Net::HTTP.start(endpoint.host, endpoint.port, use_ssl: endpoint.scheme == 'https') do |http|
    http.request(request)
  end
  abort "step 2: #{response.code} #{response.body}" unless response.is_a?(Net::HTTPSuccess)
end

def upload(storage, name, mime, content)
  declaration = OpenapiClient::PresignRequest.new(
    folder: OpenapiClient::UploadFolder::SAMPLES, mime: mime, name: name, size: content.bytesize
  )
  target = storage.create_presigned_upload(declaration).data
  send_content(target, name, content)
  target.download_url
end

def wait(tasks, id)
  MAX_POLLS.times do
    task = tasks.get_task(id).data
    return task if TERMINAL.include?(task.status)

    sleep POLL_INTERVAL
  end
  abort "the task #{id} has no terminal status"
end

def main
  client = client_with(ENV.fetch('API_KEY'))
  model = ENV.fetch('MODEL')
  account = OpenapiClient::AccountApi.new(client)
  models = OpenapiClient::ModelsApi.new(client)
  tasks = OpenapiClient::TasksApi.new(client)
  storage = OpenapiClient::StorageApi.new(client)
  return { code: status_code_of_failure { account.get_balance } } if %w[html502 http429].include?(ENV['MODE'])

  stranger = OpenapiClient::AccountApi.new(client_with('wrong-key'))
  refused = status_code_of_failure { stranger.get_balance }
  balance = account.get_balance.data
  search = OpenapiClient::ModelListRequest.new(search: 'color', sort: OpenapiClient::ModelSort::TRENDING, limit: 5)
  models.list_models(search)
  detail = models.get_model(model).data
  version = models.get_model_versioning(model).data
  models.get_model_cost(model)
  models.get_model_serving(model)

  run = "ruby-#{Process.pid}-#{Time.now.to_i}"
  small = upload(storage, "#{run}.png", 'image/png', SMALL_PNG)
  large = upload(storage, "#{run}.mp4", 'video/mp4', "\0" * LARGE_FILE_SIZE)

  task = wait(tasks, tasks.create_task(model, { input: small }).data.data)
  history = tasks.list_tasks(limit: 100, offset: 0).data
  second = tasks.create_task_alias(model, { input: small }).data.data
  # A node may have been faster than the cancel.
  status_code_of_failure { tasks.cancel_task(second) }
  canceled = wait(tasks, second)

  listing = storage.list_files('samples', page: 1, page_size: 20).data
  statistics = storage.get_storage_statistics.data
  deleted = [small, large].count { |url| storage.delete_file(OpenapiClient::FileUrl.new(url: url)) }

  descriptor = (version.input_format || {})['input']
  result = task.result&.result
  {
    refused: refused,
    balance: balance.balance,
    price: detail.price,
    visibility: detail.visibility,
    type: descriptor&.type,
    status: task.status,
    output: result && (result['output'] || result[:output]),
    history: history.total,
    after_cancel: canceled.status,
    files: listing.files&.length,
    total_files: statistics.total_files,
    deleted: deleted
  }
end

puts JSON.generate(main)
