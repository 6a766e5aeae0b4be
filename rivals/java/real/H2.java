import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Map;

/**
 * H2, with its tables in memory: transactions of TPC-C's kind by eight terminals, which threads share among them.
 *
 * <p>Each terminal has its own warehouse and its own random numbers, but one payment in eight is for a customer of the next
 * warehouse. So threads wait for each other's rows, and what they leave does not hang on their number or order.
 */
final class H2 implements Workload {
    private static final int TERMINALS = 8;
    private static final int CUSTOMERS = 60;
    private static final int ITEMS = 400;
    /** A transaction that waited too long for a lock, or for a row that another changed, is made again. */
    private static final int MOST_TRIES = 100;

    private static final String[] TABLES = {
        "create table warehouse(id int primary key, total bigint, next int)",
        "create table customer(warehouse int, id int, name varchar, balance bigint, payments int,"
                + " primary key(warehouse, id))",
        "create table item(id int primary key, name varchar, price int)",
        "create table stock(warehouse int, item int, quantity int, sold int, primary key(warehouse, item))",
        "create table purchase(warehouse int, id int, customer int, lines int, sent boolean,"
                + " primary key(warehouse, id))",
        "create table line(warehouse int, purchase int, number int, item int, quantity int, amount int,"
                + " primary key(warehouse, purchase, number))",
        "create table payment(warehouse int, terminal int, number int, amount int, note varchar)"
    };

    private final int transactions;
    private int databases;

    H2(Scale scale) {
        transactions = scale.of(400, 20);
    }

    @Override
    public long run(Mutators mutators, Map<String, Object> facts) {
        databases++;
        String url = "jdbc:h2:mem:shop" + databases + ";LOCK_TIMEOUT=10000";
        // The tables live as long as one connection is open.
        try (Connection keeper = DriverManager.getConnection(url, "sa", "")) {
            fill(keeper);
            mutators.sum(
                    thread -> {
                        for (int i = thread; i < TERMINALS; i += mutators.threads()) {
                            try (Terminal terminal = new Terminal(url, i)) {
                                terminal.work(transactions);
                            } catch (SQLException error) {
                                throw Real.broken(error);
                            }
                        }
                        return 0L;
                    });
            return sum(keeper, facts);
        } catch (SQLException error) {
            throw Real.broken(error);
        }
    }

    private static void fill(Connection connection) throws SQLException {
        Prose prose = new Prose(9300);
        try (Statement statement = connection.createStatement()) {
            for (String table : TABLES) {
                statement.execute(table);
            }
        }
        String customers = "insert into customer values(?, ?, ?, 0, 0)";
        String stocks = "insert into stock values(?, ?, 100, 0)";
        try (PreparedStatement warehouse = connection.prepareStatement("insert into warehouse values(?, 0, 0)");
                PreparedStatement customer = connection.prepareStatement(customers);
                PreparedStatement stock = connection.prepareStatement(stocks);
                PreparedStatement item = connection.prepareStatement("insert into item values(?, ?, ?)")) {
            for (int id = 0; id < ITEMS; id++) {
                set(item, id, prose.words(2), 1 + prose.below(100)).executeUpdate();
            }
            for (int home = 0; home < TERMINALS; home++) {
                set(warehouse, home).executeUpdate();
                for (int id = 0; id < CUSTOMERS; id++) {
                    set(customer, home, id, prose.words(2)).executeUpdate();
                }
                for (int id = 0; id < ITEMS; id++) {
                    set(stock, home, id).executeUpdate();
                }
            }
        }
    }

    private static PreparedStatement set(PreparedStatement statement, Object... values)
            throws SQLException {
        for (int i = 0; i < values.length; i++) {
            statement.setObject(i + 1, values[i]);
        }
        return statement;
    }

    /** A number made of what all tables hold. */
    private static long sum(Connection connection, Map<String, Object> facts) throws SQLException {
        String[] queries = {
            "select sum(total), sum(next) from warehouse",
            "select sum(balance * (warehouse + 1) * (id + 1)), sum(payments) from customer",
            "select sum(quantity * (item + 1)), sum(sold) from stock",
            "select count(*), sum(case when sent then id else 0 end) from purchase",
            "select count(*), sum(amount * (item + 1)) from line",
            "select count(*), sum(amount * (terminal + 1)) from payment"
        };
        long sum = 0;
        try (Statement statement = connection.createStatement()) {
            for (String query : queries) {
                try (ResultSet row = statement.executeQuery(query)) {
                    row.next();
                    sum = Numbers.chained(sum, row.getLong(1));
                    sum = Numbers.chained(sum, row.getLong(2));
                }
            }
            try (ResultSet row = statement.executeQuery("select count(*) from purchase")) {
                row.next();
                facts.put("purchases", row.getLong(1));
            }
        }
        return sum;
    }

    /** A clerk with a connection. */
    private static final class Terminal implements AutoCloseable {
        private final Connection connection;
        private final int home;
        private final Prose prose;
        private final PreparedStatement next;
        private final PreparedStatement take;
        private final PreparedStatement price;
        private final PreparedStatement sell;
        private final PreparedStatement order;
        private final PreparedStatement line;
        private final PreparedStatement pay;
        private final PreparedStatement earn;
        private final PreparedStatement note;
        private final PreparedStatement waiting;
        private final PreparedStatement send;
        private final PreparedStatement recent;
        private int payments;
        /** What the queries that only read have seen. */
        private long seen;

        Terminal(String url, int home) throws SQLException {
            this.home = home;
            prose = new Prose(9400 + home);
            connection = DriverManager.getConnection(url, "sa", "");
            connection.setAutoCommit(false);
            next = connection.prepareStatement("select next from warehouse where id = ? for update");
            take = connection.prepareStatement("update warehouse set next = next + 1 where id = ?");
            price = connection.prepareStatement("select price from item where id = ?");
            sell = connection.prepareStatement(
                    "update stock set sold = sold + ?, quantity = case when quantity > ? then quantity - ?"
                            + " else quantity + 91 - ? end where warehouse = ? and item = ?");
            order = connection.prepareStatement("insert into purchase values(?, ?, ?, ?, false)");
            line = connection.prepareStatement("insert into line values(?, ?, ?, ?, ?, ?)");
            pay = connection.prepareStatement(
                    "update customer set balance = balance - ?, payments = payments + 1"
                            + " where warehouse = ? and id = ?");
            earn = connection.prepareStatement("update warehouse set total = total + ? where id = ?");
            note = connection.prepareStatement("insert into payment values(?, ?, ?, ?, ?)");
            waiting = connection.prepareStatement(
                    "select min(id) from purchase where warehouse = ? and not sent and id >= ?");
            send = connection.prepareStatement("update purchase set sent = true where warehouse = ? and id = ?");
            recent = connection.prepareStatement(
                    "select count(*), sum(l.amount) from line l join item i on l.item = i.id"
                            + " where l.warehouse = ? and l.purchase >= ? and i.price > 20");
        }

        private int orders;
        private int sent;

        void work(int count) throws SQLException {
            for (int number = 0; number < count; number++) {
                // The same random numbers again when it is made again.
                int kind = prose.below(100);
                long seed = Numbers.scattered(9500L + home * 100_000L + number) >>> 1;
                for (int tries = 1; ; tries++) {
                    try {
                        transact(kind, new Prose(seed));
                        connection.commit();
                        break;
                    } catch (SQLException error) {
                        connection.rollback();
                        if (tries == MOST_TRIES) {
                            throw error;
                        }
                    }
                }
                if (kind < 45) {
                    orders++;
                } else if (kind < 88) {
                    payments++;
                } else if (kind < 94) {
                    sent++;
                }
            }
        }

        private void transact(int kind, Prose random) throws SQLException {
            if (kind < 45) {
                buy(random);
            } else if (kind < 88) {
                settle(random);
            } else if (kind < 94) {
                deliver();
            } else {
                look();
            }
        }

        private void buy(Prose random) throws SQLException {
            int lines = 5 + random.below(11);
            int id = number(set(next, home));
            Rival.require(id == orders, "orders are numbered");
            set(take, home).executeUpdate();
            set(order, home, id, random.below(CUSTOMERS), lines).executeUpdate();
            for (int i = 0; i < lines; i++) {
                int item = random.below(ITEMS);
                int quantity = 1 + random.below(10);
                int amount = quantity * number(set(price, item));
                set(sell, quantity, quantity, quantity, quantity, home, item).executeUpdate();
                set(line, home, id, i, item, quantity, amount).executeUpdate();
            }
        }

        private void settle(Prose random) throws SQLException {
            int amount = 1 + random.below(5000);
            int place = random.below(8) == 0 ? (home + 1) % TERMINALS : home;
            set(pay, amount, place, random.below(CUSTOMERS)).executeUpdate();
            set(earn, amount, home).executeUpdate();
            set(note, place, home, payments, amount, random.words(4)).executeUpdate();
        }

        private void deliver() throws SQLException {
            if (sent < orders) {
                set(send, home, number(set(waiting, home, sent))).executeUpdate();
            }
        }

        private void look() throws SQLException {
            try (ResultSet row = set(recent, home, Math.max(0, orders - 20)).executeQuery()) {
                row.next();
                seen += row.getLong(1) + row.getLong(2);
            }
        }

        private static int number(PreparedStatement query) throws SQLException {
            try (ResultSet row = query.executeQuery()) {
                row.next();
                return row.getInt(1);
            }
        }

        @Override
        public void close() throws SQLException {
            Rival.require(seen >= 0, "sums are positive");
            connection.close();
        }
    }
}
