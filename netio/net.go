package netio

func listenNet(o Options) (Server, error) { panic("stub") }
