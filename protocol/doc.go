// Package protocol turns bytes into typed requests and answers into bytes.
package protocol
