// Runs a model on a picture: upload, create once, poll, download. Needs the standard library alone.
//
//	BASE_URL=https://host/api/v1 API_KEY=… go run run.go photo.png clear.png
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// client follows no redirect of a call with the key; a bucket responds to a download with one.
var client = http.Client{CheckRedirect: func(request *http.Request, via []*http.Request) error {
	if via[0].Header.Get("X-Api-Key") != "" {
		return http.ErrUseLastResponse
	}
	return nil
}}

// send sends a request, again after a lost response, a 408, a 429 or a 5xx, and returns the body of the success.
func send(method, url string, header http.Header, body []byte) []byte {
	for attempt := 1; ; attempt++ {
		request, err := http.NewRequest(method, url, bytes.NewReader(body))
		if err != nil {
			log.Fatal("the URL of the request is not valid")
		}
		request.Header = header
		response, err := client.Do(request)
		pause, problem := time.Duration(attempt)*time.Second, ""
		if err != nil {
			problem = fmt.Sprint("no response: ", errors.Unwrap(err)) // without the URL
		} else {
			content, broken := io.ReadAll(response.Body)
			response.Body.Close()
			problem = fmt.Sprintf("%d %s", response.StatusCode, content)
			if broken != nil {
				problem = "a broken response: " + broken.Error()
			} else if response.StatusCode/100 == 2 {
				return content
			}
			if seconds, err := strconv.Atoi(response.Header.Get("retry-after")); err == nil {
				pause = time.Duration(seconds) * time.Second
			}
			if s := response.StatusCode; broken == nil && s < 500 && s != 408 && s != 429 {
				log.Fatalf("%s failed: %s", method, problem)
			}
		}
		if attempt == 5 {
			log.Fatalf("%s failed after 5 attempts: %s", method, problem)
		}
		time.Sleep(pause)
	}
}

// call sends a call to the API, and reads its data.
func call(method, path, key string, body, data any) {
	header := http.Header{"X-Api-Key": {os.Getenv("API_KEY")}, "Content-Type": {"application/json"}}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	content, _ := json.Marshal(body)
	envelope := struct{ Data any }{data}
	if err := json.Unmarshal(send(method, os.Getenv("BASE_URL")+path, header, content), &envelope); err != nil {
		log.Fatal(err)
	}
}

func main() {
	if len(os.Args) != 3 || os.Getenv("BASE_URL") == "" || os.Getenv("API_KEY") == "" {
		log.Fatal("usage: BASE_URL=https://host/api/v1 API_KEY=… go run run.go photo.png clear.png")
	}
	photo, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	name := filepath.Base(os.Args[1])

	// 1. Upload. The target grants access and needs no key.
	var target struct {
		Endpoint, Fields string
		URL              string `json:"download_url"`
	}
	file := map[string]any{"folder": "samples", "name": name, "mime": http.DetectContentType(photo), "size": len(photo)}
	call("POST", "/api-key/storage/upload/create-presigned-url", "", file, &target)
	var fields map[string]string
	json.Unmarshal([]byte(target.Fields), &fields)
	if strings.Contains(target.Endpoint, "X-Amz-Algorithm") {
		send("PUT", target.Endpoint, http.Header{"Content-Type": {fields["Content-Type"]}}, photo)
	} else {
		var body bytes.Buffer
		form := multipart.NewWriter(&body)
		for field, value := range fields {
			form.WriteField(field, value)
		}
		part, _ := form.CreateFormFile("file", name)
		part.Write(photo)
		form.Close()
		send("POST", target.Endpoint, http.Header{"Content-Type": {form.FormDataContentType()}}, body.Bytes())
	}

	// 2. Create once: all attempts carry one key, so that they make one task.
	key := make([]byte, 16)
	rand.Read(key)
	var created struct{ Data string }
	inputs := map[string]any{"input_image": target.URL}
	call("POST", "/api-key/model/haze-removal/task", fmt.Sprintf("%x", key), inputs, &created)
	fmt.Println("task", created.Data)

	// 3. Poll until the status is terminal.
	var task struct {
		Status, Message string
		Result          struct {
			Result struct {
				Image string `json:"output_image"`
			}
		}
	}
	for reads := 1; task.Status != "success"; reads++ {
		time.Sleep(time.Duration(reads%5+1) * time.Second)
		call("GET", "/api-key/task/"+created.Data+"/detail", "", nil, &task)
		switch task.Status {
		case "failed":
			log.Fatal("failed: ", task.Message)
		case "canceled":
			log.Fatal("the task was canceled, and is not billed")
		}
	}

	// 4. Download.
	if err := os.WriteFile(os.Args[2], send("GET", task.Result.Result.Image, nil, nil), 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Println(os.Args[2])
}
