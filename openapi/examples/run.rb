# Runs a model on a picture: upload, create once, poll, download. Needs the standard library alone.
#   BASE_URL=https://host/api/v1 API_KEY=… ruby run.rb photo.png clear.png
require "json"
require "net/http"
require "securerandom"

LOST = [IOError, SystemCallError, Timeout::Error, Net::HTTPBadResponse, OpenSSL::SSL::SSLError].freeze

# Sends a request, again after a lost response, a 408, a 429 or a 5xx. Returns the response of the success.
def deliver(url, request)
  uri = URI(url)
  (1..5).each do |attempt|
    begin
      response = Net::HTTP.start(uri.host, uri.port, use_ssl: uri.scheme == "https", max_retries: 0) { |http| http.request(request) }
      # The library takes a body that was cut for a whole one.
      raise EOFError if response.body.to_s.bytesize < response.content_length.to_i
      return response if response.is_a?(Net::HTTPSuccess) || response.is_a?(Net::HTTPRedirection)
      problem = "#{response.code} #{response.body}"
      abort "#{request.method} failed: #{problem}" unless response.code.to_i >= 500 || %w[408 429].include?(response.code)
      pause = response["retry-after"].to_i
    rescue *LOST => error
      problem = error.class
    end
    abort "#{request.method} failed after 5 attempts: #{problem}" if attempt == 5
    sleep [pause.to_i, attempt].max
  end
end

def call(kind, path, body = nil, key = nil)
  url = ENV.fetch("BASE_URL") + path
  request = kind.new(URI(url), { "x-api-key" => ENV.fetch("API_KEY"), "content-type" => "application/json" })
  request["idempotency-key"] = key if key
  request.body = JSON.generate(body) if body
  JSON.parse(deliver(url, request).body).fetch("data")
end

usage = "usage: BASE_URL=https://host/api/v1 API_KEY=… ruby run.rb photo.png clear.png"
abort usage unless ARGV.size == 2 && ENV["BASE_URL"] && ENV["API_KEY"]
photo, result = ARGV
content = File.binread(photo)

# 1. Upload. The target grants access and needs no key.
mime = { "\xFF".b => "image/jpeg", "R" => "image/webp", "G" => "image/gif" }.fetch(content[0], "image/png")
file = { folder: "samples", name: File.basename(photo).force_encoding("UTF-8"), mime:, size: content.bytesize }
target = call(Net::HTTP::Post, "/api-key/storage/upload/create-presigned-url", file)
endpoint, fields = target["endpoint"], JSON.parse(target["fields"])
if endpoint.include?("X-Amz-Algorithm")
  request = Net::HTTP::Put.new(URI(endpoint), { "content-type" => fields["Content-Type"] })
  request.body = content
else
  request = Net::HTTP::Post.new(URI(endpoint))
  # The library joins texts and bytes: all of them are bytes here.
  form = fields.transform_values(&:b).to_a << ["file", content, { filename: "photo", content_type: mime }]
  request.set_form(form, "multipart/form-data")
end
deliver(endpoint, request)

# 2. Create once: all attempts carry one key, so that they make one task.
inputs = { input_image: target["download_url"] }
task = call(Net::HTTP::Post, "/api-key/model/haze-removal/task", inputs, SecureRandom.uuid)["data"]
puts "task #{task}"

# 3. Poll until the status is terminal.
detail = {}
(1..).each do |read|
  detail = call(Net::HTTP::Get, "/api-key/task/#{task}/detail")
  abort "failed: #{detail["message"]}" if detail["status"] == "failed"
  abort "the task was canceled, and is not billed" if detail["status"] == "canceled"
  break if detail["status"] == "success"
  sleep [read, 5].min
end

# 4. Download. A bucket responds with a redirect.
url = detail["result"]["result"]["output_image"]
response = deliver(url, Net::HTTP::Get.new(URI(url)))
response = deliver(response["location"], Net::HTTP::Get.new(URI(response["location"]))) if response.is_a?(Net::HTTPRedirection)
File.binwrite(result, response.body)
puts result
