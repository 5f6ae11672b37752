// Drives the service with the Go client of openapi-generator. See ../README.md for the environment
// and the output.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"time"

	inferstore "github.com/GIT_USER_ID/GIT_REPO_ID"
)

const (
	largeFileSize = 5_242_881
	pollInterval  = 300 * time.Millisecond
	maxPolls      = 200
	smallPNG      = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

func check(operation string, err error) {
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", operation, err)
	if failure, ok := err.(*inferstore.GenericOpenAPIError); ok {
		fmt.Fprintf(os.Stderr, "%s\n", failure.Body())
	}
	os.Exit(1)
}

// statusCode returns the status code of a failed call, or nil when the call succeeded or no response arrived.
func statusCode(response *http.Response, err error) any {
	if err == nil || response == nil {
		return nil
	}
	return response.StatusCode
}

func withKey(key string) context.Context {
	keys := map[string]inferstore.APIKey{"ApiKey": {Key: key}}
	return context.WithValue(context.Background(), inferstore.ContextAPIKeys, keys)
}

// send is step 2 of an upload. It is not part of the API and must not carry the API key.
func send(target *inferstore.PresignedUpload, name string, content []byte) error {
	fields := map[string]string{}
	if err := json.Unmarshal([]byte(target.Fields), &fields); err != nil {
		return err
	}
	var request *http.Request
	if strings.Contains(target.Endpoint, "X-Amz-Algorithm") {
		put, err := http.NewRequest(http.MethodPut, target.Endpoint, bytes.NewReader(content))
		if err != nil {
			return err
		}
		put.Header.Set("Content-Type", fields["Content-Type"])
		request = put
	} else {
		body := &bytes.Buffer{}
		form := multipart.NewWriter(body)
		for field, value := range fields {
			if err := form.WriteField(field, value); err != nil {
				return err
			}
		}
		file, err := form.CreateFormFile("file", name)
		if err != nil {
			return err
		}
		file.Write(content)
		form.Close()
		post, err := http.NewRequest(http.MethodPost, target.Endpoint, body)
		if err != nil {
			return err
		}
		post.Header.Set("Content-Type", form.FormDataContentType())
		request = post
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode > 299 {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	return nil
}

func upload(ctx context.Context, client *inferstore.APIClient, name, mime string, content []byte) string {
	declaration := inferstore.NewPresignRequest(inferstore.UPLOADFOLDER_SAMPLES, mime, name, int64(len(content)))
	created, _, err := client.StorageAPI.CreatePresignedUpload(ctx).PresignRequest(*declaration).Execute()
	check("createPresignedUpload", err)
	check("step 2", send(&created.Data, name, content))
	return created.Data.DownloadUrl
}

func wait(ctx context.Context, client *inferstore.APIClient, id string) *inferstore.TaskDetail {
	for poll := 0; poll < maxPolls; poll++ {
		task, _, err := client.TasksAPI.GetTask(ctx, id).Execute()
		check("getTask", err)
		switch task.Data.GetStatus() {
		case "success", "failed", "canceled":
			return &task.Data
		}
		time.Sleep(pollInterval)
	}
	fmt.Fprintf(os.Stderr, "the task %s has no terminal status\n", id)
	os.Exit(1)
	return nil
}

func outputOf(task *inferstore.TaskDetail) any {
	result := task.GetResult()
	fields, _ := result.Result.(map[string]interface{})
	return fields["output"]
}

func descriptorType(version *inferstore.ModelVersioning) any {
	descriptor, ok := version.GetInputFormat()["input"]
	if !ok {
		return nil
	}
	return descriptor.Type.Get()
}

func report(fields map[string]any) {
	line, err := json.Marshal(fields)
	check("report", err)
	fmt.Println(string(line))
}

func main() {
	configuration := inferstore.NewConfiguration()
	configuration.Servers = inferstore.ServerConfigurations{{URL: os.Getenv("BASE_URL")}}
	client := inferstore.NewAPIClient(configuration)
	ctx := withKey(os.Getenv("API_KEY"))
	model := os.Getenv("MODEL")

	switch os.Getenv("MODE") {
	case "html502", "http429":
		_, response, err := client.AccountAPI.GetBalance(ctx).Execute()
		report(map[string]any{"code": statusCode(response, err)})
		return
	}

	_, refusedResponse, refused := client.AccountAPI.GetBalance(withKey("wrong-key")).Execute()
	balance, _, err := client.AccountAPI.GetBalance(ctx).Execute()
	check("getBalance", err)

	search := inferstore.NewModelListRequest()
	search.SetSearch("color")
	search.SetSort(inferstore.MODELSORT_TRENDING)
	search.SetLimit(5)
	_, _, err = client.ModelsAPI.ListModels(ctx).ModelListRequest(*search).Execute()
	check("listModels", err)
	detail, _, err := client.ModelsAPI.GetModel(ctx, model).Execute()
	check("getModel", err)
	version, _, err := client.ModelsAPI.GetModelVersioning(ctx, model).Execute()
	check("getModelVersioning", err)
	_, _, err = client.ModelsAPI.GetModelCost(ctx, model).Execute()
	check("getModelCost", err)
	_, _, err = client.ModelsAPI.GetModelServing(ctx, model).Execute()
	check("getModelServing", err)

	picture, err := base64.StdEncoding.DecodeString(smallPNG)
	check("picture", err)
	run := fmt.Sprintf("go-%d", time.Now().UnixNano())
	small := upload(ctx, client, run+".png", "image/png", picture)
	large := upload(ctx, client, run+".mp4", "video/mp4", make([]byte, largeFileSize))

	input := map[string]interface{}{"input": small}
	created, _, err := client.TasksAPI.CreateTask(ctx, model).RequestBody(input).Execute()
	check("createTask", err)
	task := wait(ctx, client, created.Data.Data)
	history, _, err := client.TasksAPI.ListTasks(ctx).Limit(100).Offset(0).Execute()
	check("listTasks", err)

	second, _, err := client.TasksAPI.CreateTaskAlias(ctx, model).RequestBody(input).Execute()
	check("createTaskAlias", err)
	// A node may have been faster than the cancel.
	client.TasksAPI.CancelTask(ctx, second.Data.Data).Execute()
	canceled := wait(ctx, client, second.Data.Data)

	listing, _, err := client.StorageAPI.ListFiles(ctx, "samples").Page(1).PageSize(20).Execute()
	check("listFiles", err)
	statistics, _, err := client.StorageAPI.GetStorageStatistics(ctx).Execute()
	check("getStorageStatistics", err)
	deleted := 0
	for _, url := range []string{small, large} {
		_, _, err := client.StorageAPI.DeleteFile(ctx).FileUrl(*inferstore.NewFileUrl(url)).Execute()
		check("deleteFile", err)
		deleted++
	}

	var files any
	if listing.Data.Files != nil {
		files = len(listing.Data.Files)
	}
	report(map[string]any{
		"refused":      statusCode(refusedResponse, refused),
		"balance":      balance.Data.Balance.Get(),
		"price":        detail.Data.Price.Get(),
		"visibility":   detail.Data.Visibility.Get(),
		"type":         descriptorType(&version.Data),
		"status":       task.Status.Get(),
		"output":       outputOf(task),
		"history":      history.Data.Total.Get(),
		"after_cancel": canceled.Status.Get(),
		"files":        files,
		"total_files":  statistics.Data.TotalFiles.Get(),
		"deleted":      deleted,
	})
}
