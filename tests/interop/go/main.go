// What go-amqp sees of a broker: one line for each thing that it does. The same at every broker that speaks AMQP 1.0.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

var patience, _ = context.WithTimeout(context.Background(), 30*time.Second)

func must[T any](found T, err error) T {
	if err != nil {
		fmt.Println("FAILED", err)
		os.Exit(1)
	}
	return found
}

func done(err error) {
	must(0, err)
}

func condition(err error) string {
	var direct *amqp.Error
	if errors.As(err, &direct) {
		return string(direct.Condition)
	}
	var link *amqp.LinkError
	if errors.As(err, &link) && link.RemoteErr != nil {
		return string(link.RemoteErr.Condition)
	}
	var session *amqp.SessionError
	if errors.As(err, &session) && session.RemoteErr != nil {
		return string(session.RemoteErr.Condition)
	}
	return fmt.Sprint(err)
}

func text(message *amqp.Message) string {
	if value, ok := message.Value.(string); ok {
		return value
	}
	return string(message.GetData())
}

func main() {
	link := must(amqp.Dial(patience, os.Args[1], &amqp.ConnOptions{SASLType: amqp.SASLTypePlain("app", "secret")}))
	session := must(link.NewSession(patience, nil))
	queue := &amqp.ReceiverOptions{SourceCapabilities: []string{"queue"}, Credit: -1}

	sender := must(session.NewSender(patience, "go.orders", &amqp.SenderOptions{TargetCapabilities: []string{"queue"}}))
	for number := 0; number < 6; number++ {
		message := amqp.NewMessage([]byte(fmt.Sprintf("order %d", number)))
		message.Header = &amqp.MessageHeader{Durable: true, Priority: 4}
		message.Properties = &amqp.MessageProperties{MessageID: fmt.Sprintf("id-%d", number), GroupID: ptr("all")}
		message.ApplicationProperties = map[string]any{"n": int32(number), "even": number%2 == 0}
		done(sender.Send(patience, message, nil))
	}
	reader := must(session.NewReceiver(patience, "go.orders", queue))
	done(reader.IssueCredit(1))
	first := must(reader.Receive(patience, nil))
	fmt.Println("first", text(first), first.Properties.MessageID, *first.Properties.GroupID, first.ApplicationProperties["n"],
		first.ApplicationProperties["even"], first.Header.Durable)
	done(reader.AcceptMessage(patience, first))
	done(reader.IssueCredit(1))
	second := must(reader.Receive(patience, nil))
	done(reader.ReleaseMessage(patience, second))
	done(reader.IssueCredit(1))
	again := must(reader.Receive(patience, nil))
	fmt.Println("released", text(again), again.Header.DeliveryCount)
	done(reader.ModifyMessage(patience, again, &amqp.ModifyMessageOptions{DeliveryFailed: true}))
	done(reader.IssueCredit(1))
	failed := must(reader.Receive(patience, nil))
	fmt.Println("failed", text(failed), failed.Header.DeliveryCount)
	done(reader.AcceptMessage(patience, failed))
	done(reader.Close(patience))

	picked := must(session.NewReceiver(patience, "go.orders", &amqp.ReceiverOptions{
		SourceCapabilities: []string{"queue"},
		Filters:            []amqp.LinkFilter{amqp.NewSelectorFilter("n > 3 AND even = FALSE")},
	}))
	only := must(picked.Receive(patience, nil))
	fmt.Println("selected", text(only))
	done(picked.AcceptMessage(patience, only))
	done(picked.Close(patience))

	fast := must(session.NewSender(patience, "go.fast", &amqp.SenderOptions{
		SettlementMode: ptr(amqp.SenderSettleModeSettled), TargetCapabilities: []string{"queue"},
	}))
	large := strings.Repeat("x", 700_000)
	done(fast.Send(patience, &amqp.Message{Value: large}, nil))
	taken := must(session.NewReceiver(patience, "go.fast", &amqp.ReceiverOptions{
		SourceCapabilities: []string{"queue"}, RequestedSenderSettleMode: ptr(amqp.SenderSettleModeSettled),
	}))
	whole := must(taken.Receive(patience, nil))
	fmt.Println("large", len(text(whole)), text(whole) == large)
	done(taken.Close(patience))

	answers := must(session.NewReceiver(patience, "", &amqp.ReceiverOptions{
		DynamicAddress: true, SourceCapabilities: []string{"temporary-queue"},
	}))
	relay := must(session.NewSender(patience, "", nil))
	reply := amqp.NewMessage([]byte("an answer"))
	reply.Properties = &amqp.MessageProperties{To: ptr(answers.Address())}
	done(relay.Send(patience, reply, nil))
	came := must(answers.Receive(patience, nil))
	fmt.Println("dynamic", answers.Address() != "", text(came))
	done(answers.AcceptMessage(patience, came))

	browser := must(session.NewReceiver(patience, "go.orders", &amqp.ReceiverOptions{
		SourceCapabilities: []string{"queue"}, Filters: nil, SettlementMode: ptr(amqp.ReceiverSettleModeFirst), Credit: -1,
	}))
	done(browser.IssueCredit(10))
	seen := []string{}
	for len(seen) < 3 {
		message := must(browser.Receive(patience, nil))
		seen = append(seen, text(message))
		done(browser.RejectMessage(patience, message, &amqp.Error{Condition: "app:no", Description: "not wanted"}))
	}
	fmt.Println("rejected", strings.Join(seen, ", "))
	done(browser.Close(patience))

	_, err := session.NewReceiver(patience, "go.orders", &amqp.ReceiverOptions{
		SourceCapabilities: []string{"queue"},
		Filters:            []amqp.LinkFilter{amqp.NewSelectorFilter("n > > 3")},
	})
	fmt.Println("bad selector", condition(err))
	empty := must(session.NewReceiver(patience, "go.empty", queue))
	done(empty.IssueCredit(5))
	soon, cancel := context.WithTimeout(patience, 3*time.Second)
	fmt.Println("drained", empty.DrainCredit(soon, nil) == nil && empty.Prefetched() == nil)
	cancel()
	done(session.Close(patience))
	done(link.Close())
	fmt.Println("end")
}

func ptr[T any](value T) *T {
	return &value
}
