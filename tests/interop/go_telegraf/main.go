// Telegraf's own inputs for ActiveMQ and Jolokia, and its own reading of configuration, without the rest of it: gathers
// once what the configuration on standard input asks for, and prints a line of JSON for each metric and each error.
package main

import (
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"

	"github.com/influxdata/telegraf"
	"github.com/influxdata/telegraf/config"
	_ "github.com/influxdata/telegraf/plugins/inputs/activemq"
	_ "github.com/influxdata/telegraf/plugins/inputs/jolokia2_agent"
)

type line struct {
	Name   string                 `json:"name,omitempty"`
	Tags   map[string]string      `json:"tags,omitempty"`
	Fields map[string]interface{} `json:"fields,omitempty"`
	Error  string                 `json:"error,omitempty"`
}

// What is gathered goes out at once; what an input does not use is not there, and would end the program.
type printed struct {
	telegraf.Accumulator
	lock sync.Mutex
	out  *json.Encoder
}

func (p *printed) say(said line) {
	p.lock.Lock()
	defer p.lock.Unlock()
	if err := p.out.Encode(said); err != nil {
		panic(err)
	}
}

func (p *printed) AddFields(name string, fields map[string]interface{}, tags map[string]string, _ ...time.Time) {
	p.say(line{Name: name, Tags: tags, Fields: fields})
}

func (p *printed) AddError(err error) {
	if err != nil {
		p.say(line{Error: err.Error()})
	}
}

func main() {
	asked, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	read := config.NewConfig()
	if err := read.LoadConfigData(asked, "stdin"); err != nil {
		panic(err)
	}
	told := &printed{out: json.NewEncoder(os.Stdout)}
	for _, input := range read.Inputs {
		if err := input.Init(); err != nil {
			panic(err)
		}
		told.AddError(input.Input.Gather(told))
	}
}
