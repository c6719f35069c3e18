// The assignors of Kafka's Java client: answers for java.txt, and the bytes of TestJavaBytes. With the class path of Kafka 4.4's clients:
//
//   go test ./client/assign -run TestAgainstJava -questions q.txt
//   java -cp CLASSPATH client/assign/testdata/Oracle.java <q.txt >a.txt; paste q.txt a.txt >client/assign/testdata/java.txt
//   java -cp CLASSPATH client/assign/testdata/Oracle.java vectors
//
// A question is a line: assignor|topic=partitions ...|id,instance id,topics,owned partitions,generation,user data in hex;...
import java.nio.ByteBuffer;
import java.util.*;
import java.io.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.clients.consumer.internals.*;
import org.apache.kafka.common.*;
public class Oracle {
  static String hex(ByteBuffer b) { StringBuilder s = new StringBuilder(); b = b.duplicate(); while (b.hasRemaining()) s.append(String.format("%02x", b.get())); return s.toString(); }
  static ByteBuffer unhex(String h) { byte[] b = new byte[h.length()/2]; for (int i = 0; i < b.length; i++) b[i] = (byte) Integer.parseInt(h.substring(2*i, 2*i+2), 16); return ByteBuffer.wrap(b); }
  public static void main(String[] a) throws Exception {
    if (a.length > 0 && a[0].equals("vectors")) { vectors(); return; }
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = in.readLine()) != null; ) {
      String[] parts = line.split("\\|", -1);
      ConsumerPartitionAssignor as = switch (parts[0]) { case "range" -> new RangeAssignor(); case "roundrobin" -> new RoundRobinAssignor(); case "sticky" -> new StickyAssignor(); default -> new CooperativeStickyAssignor(); };
      List<PartitionInfo> infos = new ArrayList<>();
      Node n = new Node(1, "h", 1);
      for (String t : parts[1].split(" ")) if (!t.isEmpty()) { String[] kv = t.split("="); for (int p = 0; p < Integer.parseInt(kv[1]); p++) infos.add(new PartitionInfo(kv[0], p, n, new Node[]{n}, new Node[]{n})); }
      Cluster c = new Cluster("c", List.of(n), infos, Set.of(), Set.of());
      Map<String, Subscription> subs = new LinkedHashMap<>();
      for (String m : parts[2].split(";")) { if (m.isEmpty()) continue; String[] f = m.split(",", -1);
        List<String> topics = new ArrayList<>(); for (String t : f[2].split(" ")) if (!t.isEmpty()) topics.add(t);
        List<TopicPartition> owned = new ArrayList<>(); for (String t : f[3].split(" ")) if (!t.isEmpty()) { int i = t.lastIndexOf('-'); owned.add(new TopicPartition(t.substring(0, i), Integer.parseInt(t.substring(i+1)))); }
        ByteBuffer ud = f[5].isEmpty() ? null : unhex(f[5]);
        Subscription s = new Subscription(topics, ud, owned, Integer.parseInt(f[4]), Optional.empty());
        if (!f[1].isEmpty()) s.setGroupInstanceId(Optional.of(f[1]));
        subs.put(f[0], s); }
      Map<String, Assignment> r;
      try { r = as.assign(c, new GroupSubscription(subs)).groupAssignment(); } catch (RuntimeException e) { System.out.println("fails"); continue; }
      StringBuilder out = new StringBuilder();
      for (String id : new TreeSet<>(r.keySet())) { if (out.length() > 0) out.append("; "); out.append(id).append(":");
        List<TopicPartition> ps = new ArrayList<>(r.get(id).partitions()); ps.sort((x, y) -> { int d = x.topic().compareTo(y.topic()); return d != 0 ? d : x.partition() - y.partition(); });
        for (TopicPartition p : ps) out.append(" ").append(p.topic()).append("-").append(p.partition()); }
      System.out.println(out);
    }
  }
  static void vectors() {
    List<TopicPartition> owned = List.of(new TopicPartition("a", 0), new TopicPartition("b", 0), new TopicPartition("b", 1));
    StickyAssignor st = new StickyAssignor();
    st.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", 7, "m", Optional.empty()));
    System.out.println("sticky user data " + hex(st.subscriptionUserData(Set.of("a"))));
    CooperativeStickyAssignor co = new CooperativeStickyAssignor();
    co.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("g", 7, "m", Optional.empty()));
    System.out.println("cooperative user data " + hex(co.subscriptionUserData(Set.of("a"))));
    System.out.println("new sticky " + new StickyAssignor().subscriptionUserData(Set.of("a")));
    ByteBuffer nw = new CooperativeStickyAssignor().subscriptionUserData(Set.of("a"));
    System.out.println("new cooperative " + (nw == null ? "null" : hex(nw)));
    System.out.println("range " + new RangeAssignor().subscriptionUserData(Set.of("a")));
    System.out.println("subscription " + hex(ConsumerProtocol.serializeSubscription(new Subscription(List.of("b", "a"), unhex("0102"), owned, 7, Optional.of("r1")))));
    System.out.println("bare subscription " + hex(ConsumerProtocol.serializeSubscription(new Subscription(List.of("a")))));
    System.out.println("assignment " + hex(ConsumerProtocol.serializeAssignment(new Assignment(List.of(new TopicPartition("a", 0), new TopicPartition("b", 7)), unhex("01")))));
    System.out.println("bare assignment " + hex(ConsumerProtocol.serializeAssignment(new Assignment(List.of()))));
  }
}
