package main

import (
	"context"
	"fmt"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// Argo CD gives a script no more time than this.
const patience = time.Second

// argo runs the script as Argo CD does by default: without the libraries for strings, mathematics and files.
func argo(asked *request) (*verdict, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	limited, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	state.SetContext(limited)
	state.SetGlobal("obj", value(state, asked.Object.Object))
	if err := state.DoString(asked.Script); err != nil {
		return nil, err
	}
	health, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return nil, fmt.Errorf("the script returned %s, not a table", state.Get(-1).Type())
	}
	return &verdict{lua.LVAsString(health.RawGetString("status")), lua.LVAsString(health.RawGetString("message"))}, nil
}

func value(state *lua.LState, of any) lua.LValue {
	switch known := of.(type) {
	case bool:
		return lua.LBool(known)
	case float64:
		return lua.LNumber(known)
	case int64:
		return lua.LNumber(known)
	case string:
		return lua.LString(known)
	case []any:
		table := state.CreateTable(len(known), 0)
		for _, item := range known {
			table.Append(value(state, item))
		}
		return table
	case map[string]any:
		table := state.CreateTable(0, len(known))
		for key, item := range known {
			table.RawSetString(key, value(state, item))
		}
		return table
	}
	return lua.LNil
}
